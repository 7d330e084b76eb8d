"""What a notebook shows: executed by a kernel of its own, and looked at as HTML."""

from __future__ import annotations

import os
import re
import sys

import nbformat
import pyarrow as pa
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

import sash
from sash.runtime.callers import FULL_TRACEBACKS
from sash.runtime.notebook import html_of

CELLS = [
    "import pyarrow as pa, sash\n"
    "trips = pa.table({'ts': pa.array(range(0, 60_000_000, 1_000_000), pa.timestamp('us')), 'city<': ['a&b'] * 60})",
    'changes = sash.sql(\'SELECT "city<", count(*) AS n FROM trips [RANGE 10 SECONDS] GROUP BY "city<"\')\nchanges',
    "sash.answer(changes, at='1970-01-01 00:00:03')",
    "trips",
    "sash.sql('SELECT citi FROM trips')",
]
ROWS = pa.table({"ts": pa.array([1, 2, 3], pa.timestamp("us")), "k": ["<b>", None, "c"], "v": [0.5, 2.0, None]})


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """The notebook, run from its first cell to its last, by the interpreter of the tests."""
    place = tmp_path_factory.mktemp("notebook")
    kernel = place / "kernels" / "here"
    kernel.mkdir(parents=True)
    run = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(
        f'{{"argv": {run}, "display_name": "here", "language": "python"}}'.replace("'", '"')
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(place))
        patch.setenv("IPYTHONDIR", str(place / "ipython"))
        patch.delenv(FULL_TRACEBACKS, raising=False)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
        client = NotebookClient(notebook, kernel_name="here", timeout=300, allow_errors=True, resources={})
        return client.execute(cwd=os.fspath(place))


def shown(notebook: nbformat.NotebookNode, cell: int) -> str:
    """What the result of a cell looks like; nothing if only its text is shown."""
    (output,) = notebook.cells[cell].outputs
    return output.data.get("text/html", "")


def texts(html: str) -> list[str]:
    """What stands in a piece of HTML, between tags."""
    return [text for text in re.split(r"<[^>]*>", html) if text]


def test_changes_are_counted_and_shown_with_their_clock(executed: nbformat.NotebookNode) -> None:
    head, *cells = texts(shown(executed, 1))
    assert head == ("10 changes · the newest row of each (city&lt;) counts · final up to 1970-01-01 00:00:59")
    assert cells[:5] == ["city&lt;", "n", "_op", "_ts", "_expires"]
    assert cells[5:9] == ["a&amp;b", "1", "+", "1970-01-01 00:00:00"]


def test_an_answer_says_of_when_it_is(executed: nbformat.NotebookNode) -> None:
    assert texts(shown(executed, 2)) == ["1 row · at 1970-01-01 00:00:03", "city&lt;", "n", "a&amp;b", "4"]


def test_other_tables_look_as_before(executed: nbformat.NotebookNode) -> None:
    assert shown(executed, 3) == ""


def test_a_mistake_is_one_frame_and_the_message(executed: nbformat.NotebookNode) -> None:
    (output,) = executed.cells[4].outputs
    assert output.evalue.startswith("there is no column `citi`")
    text = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(output.traceback))
    assert "Cell In[5], line 1" in text
    assert "site-packages" not in text
    assert "src/sash" not in text


def test_the_page_is_made(executed: nbformat.NotebookNode) -> None:
    page, _ = HTMLExporter().from_notebook_node(executed)
    assert "final up to 1970-01-01 00:00:59" in page


def test_values_are_text_and_no_tags() -> None:
    html = html_of(sash.sql("SELECT k, v FROM s", s=ROWS))
    assert html is not None
    assert "<b>" not in html
    assert texts(html)[6:8] == ["&lt;b&gt;", "0.5"]
    assert "NULL" in texts(html)


def test_only_the_newest_changes_are_shown() -> None:
    many = pa.table({"ts": pa.array(range(1_000), pa.timestamp("us")), "v": range(1_000)})
    html = html_of(sash.sql("SELECT v FROM s", s=many))
    assert html is not None
    assert html.count("<tr>") == 21
    assert texts(html)[0] == "1,000 changes · final up to 1970-01-01 00:00:00.000999 · the newest 20 are shown"
    assert texts(html)[-2] != "0"


def test_no_rows_are_shown_too() -> None:
    html = html_of(sash.sql("SELECT v FROM s", s=ROWS.slice(0, 0)))
    assert html is not None
    assert texts(html)[0].startswith("0 changes")


def test_tables_of_others_are_not_touched() -> None:
    assert html_of(ROWS) is None
