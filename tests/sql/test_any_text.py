"""Whatever the text, what is raised is an error of ours."""

from __future__ import annotations

import contextlib
import re

from hypothesis import example, given
from hypothesis import strategies as st

from sash.errors import SashError
from sash.sql.bind import bind
from sash.sql.catalog import Catalog
from sash.sql.parse import parse_query, parse_script
from sash.sql.statements import CreateQuery

SENTENCES = """
CREATE STREAM s ( a DOUBLE , ts TIMESTAMP ) TIMESTAMP BY ts SLACK 5 SECONDS FROM 'in' FORMAT csv OPTIONS ( k =
'v' ) ; CREATE QUERY q AS SELECT /*+ wnl */ A . location , B . value AS v FROM temperature A [ PARTITION BY n
ROWS 5 ] JOIN humidity B ON A . location = B . location WHERE A . value BETWEEN 1 AND - 2.5 WINDOW 1 HOUR EMIT
CHANGES INTO 'out' FORMAT json ; SELECT * , tags [ 1 ] , upper ( "location" ) , CASE WHEN ok THEN now ( ) ELSE
NULL END , CAST ( n AS INT ) , sum ( n ) OVER ( ORDER BY ts ) , [ x FOR x IN tags ] FROM temperature [ SINCE
TIMESTAMP '2026-01-31' ] , rooms USING ( name ) GROUP BY n HAVING n UNION SELECT DISTINCT place . room ::
VARCHAR || 'x' LIMIT 3 [ RANGE INTERVAL '5 minutes' SLIDE 1 s ] WITH LEFT LATERAL VALUES PIVOT # ? $1 ' " /*
-- ELSE END BEGIN DWINDOW WINDOW ( A , B ) = 1 MONTH UNBOUNDED NOW ; SELECT location , count ( DISTINCT n ) AS c ,
median ( value ) FROM ( SELECT * FROM temperature EXCEPT ALL SELECT * FROM temperature ) s WHERE location NOT IN (
SELECT location FROM humidity ) AND NOT EXISTS ( SELECT 1 FROM humidity B WHERE B . value = s . value ) GROUP BY 1
HAVING c > 1 INTERSECT ( SELECT location , 1 , 2.5 FROM humidity [ ROWS 5 ] ) MINUS SELECT 'x' , 1 , 1 FROM
temperature WINDOW 1 HOUR SLIDE 1 s ; WITH hot AS ( SELECT first ( n ORDER BY ts ) FROM temperature GROUP BY ALL )
SELECT string_agg ( x , ',' ) FILTER ( WHERE ok ) FROM hot [ NOW ] ; SELECT A . n FROM temperature A , humidity B ,
temperature C WHERE A . n = C . n WINDOW ( A , B ) = 1 s AND DWINDOW ( B , C ) = INTERVAL '2' SECOND AND WINDOW ( C ,
A ) = 500 ms EMIT CHANGES
"""
words = st.sampled_from(sorted(set(re.findall(r"\S+", SENTENCES))))


def check(text: str, catalog: Catalog) -> None:
    for parse in (parse_script, parse_query):
        with contextlib.suppress(SashError):
            parse(text)
    with contextlib.suppress(SashError):
        for statement in parse_script(text):
            if isinstance(statement, CreateQuery):
                bind(statement.select, catalog)


@given(text=st.text(st.characters(codec=None)))
@example(text="")
@example(text="END")
@example(text="SELECT 1 FROM temperature; ELSE")
@example(text="SELECT\r\n*\rFROM\ttemperature")
@example(text="SELECT '\\")
@example(text="SELECT $a$")
def test_any_characters(text: str, catalog: Catalog) -> None:
    check(text, catalog)


@given(text=st.lists(words, max_size=30).map(" ".join))
@example(text="CREATE TABLE t ( a ENUM ( ) ) FROM 'x' FORMAT csv")
@example(text="SELECT A . FROM temperature A")
def test_any_words(text: str, catalog: Catalog) -> None:
    check(text, catalog)


@given(data=st.data())
def test_any_small_change_of_a_sentence(data: st.DataObject, catalog: Catalog) -> None:
    sentence = data.draw(st.sampled_from(SENTENCES.replace("\n", " ").split(" ; "))).split()
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(sentence)))
        sentence[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(words, max_size=1))
    check(" ".join(sentence), catalog)
