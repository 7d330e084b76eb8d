"""The queries of the Nexmark benchmark, by name, as its authors write them for Flink, but for four things.

A stream that would have to be kept for ever has a window. Where the time of processing is asked for, the time of the
event stands, as an answer must follow from the rows. What q14 calls in Java is spelled out. In q6, which is
no valid SQL, `B.dateTime` is neither grouped nor aggregated: the time of the highest bid stands there.
"""

from __future__ import annotations

WINDOW = "[RANGE 10 SECONDS]"
"""What is kept of streams that the authors keep for ever."""
_OPEN = "A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires"
_HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
_TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))"
_RANKS = {"rank1": "price < 10000", "rank2": "price >= 10000 and price < 1000000", "rank3": "price >= 1000000"}
_DAY = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"


def _counted(counted: str, name: str) -> str:
    """A count of all, and of those of each rank."""
    ranks = (f"count({counted}) filter (where {which}) AS {rank}_{name}" for rank, which in _RANKS.items())
    return ", ".join([f"count({counted}) AS total_{name}", *ranks])


_COUNTS = ", ".join(
    (_counted("*", "bids"), _counted("distinct bidder", "bidders"), _counted("distinct auction", "auctions"))
)
QUERIES = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price as price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": f"""
        SELECT P.name, P.city, P.state, A.id
        FROM auction AS A {WINDOW} INNER JOIN person AS P {WINDOW} on A.seller = P.id
        WHERE A.category = 10 and (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": f"""
        SELECT Q.category, AVG(Q.final)
        FROM (SELECT MAX(B.price) AS final, A.category FROM auction A {WINDOW}, bid B {WINDOW}
              WHERE {_OPEN} GROUP BY A.id, A.category) Q
        GROUP BY Q.category""",
    "q5": f"""
        SELECT AuctionBids.auction, AuctionBids.num
        FROM (SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
              FROM {_HOP} GROUP BY auction, window_start, window_end) AS AuctionBids
        JOIN (SELECT max(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime
              FROM (SELECT count(*) AS num, window_start AS starttime, window_end AS endtime
                    FROM {_HOP} GROUP BY auction, window_start, window_end) AS CountBids
              GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids
        ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
            AND AuctionBids.num >= MaxBids.maxn""",
    "q6": f"""
        SELECT Q.seller, AVG(Q.final) OVER
            (PARTITION BY Q.seller ORDER BY Q.`dateTime` ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS avg
        FROM (SELECT MAX(B.price) AS final, A.seller, ARG_MAX(B.`dateTime`, B.price) AS `dateTime`
              FROM auction AS A {WINDOW}, bid AS B {WINDOW} WHERE {_OPEN} GROUP BY A.id, A.seller) AS Q""",
    "q7": f"""
        SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra
        from bid B {WINDOW} JOIN (
            SELECT MAX(price) AS maxprice, window_end as `dateTime`
            FROM {_TUMBLE.format("bid")} GROUP BY window_start, window_end) B1
        ON B.price = B1.maxprice
        WHERE B.`dateTime` BETWEEN B1.`dateTime` - INTERVAL '10' SECOND AND B1.`dateTime`""",
    "q8": f"""
        SELECT P.id, P.name, P.starttime
        FROM (SELECT id, name, window_start AS starttime, window_end AS endtime
              FROM {_TUMBLE.format("person")} GROUP BY id, name, window_start, window_end) P
        JOIN (SELECT seller, window_start AS starttime, window_end AS endtime
              FROM {_TUMBLE.format("auction")} GROUP BY seller, window_start, window_end) A
        ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
    "q9": f"""
        SELECT id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra,
            auction, bidder, price, bid_dateTime, bid_extra
        FROM (SELECT A.*, B.auction, B.bidder, B.price, B.`dateTime` AS bid_dateTime, B.extra AS bid_extra,
                  ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS rownum
              FROM auction A {WINDOW}, bid B {WINDOW} WHERE {_OPEN})
        WHERE rownum <= 1""",
    "q10": f"""
        SELECT auction, bidder, price, `dateTime`, extra, {_DAY}, DATE_FORMAT(`dateTime`, 'HH:mm') FROM bid""",
    "q11": """
        SELECT B.bidder, count(*) as bid_count, window_start AS starttime, window_end AS endtime
        FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) B
        GROUP BY bidder, window_start, window_end""",
    "q12": f"""
        SELECT bidder, count(*) as bid_count, window_start AS starttime, window_end AS endtime
        FROM {_TUMBLE.format("bid")} GROUP BY bidder, window_start, window_end""",
    "q13": """
        SELECT B.auction, B.bidder, B.price, B.`dateTime`, S.`value`
        FROM bid B JOIN side_input AS S ON mod(B.auction, 10000) = S.key""",
    "q14": """
        SELECT auction, bidder, 0.908 * price as price,
            CASE WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime'
                 WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime'
                 ELSE 'otherTime' END AS bidTimeType,
            `dateTime`, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} as `day`, {_COUNTS} FROM bid {WINDOW} GROUP BY {_DAY}",
    "q16": f"""
        SELECT channel, {_DAY} as `day`, max(DATE_FORMAT(`dateTime`, 'HH:mm')) as `minute`, {_COUNTS}
        FROM bid {WINDOW} GROUP BY channel, {_DAY}""",
    "q17": f"""
        SELECT auction, {_DAY} as `day`, {_counted("*", "bids")},
            min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
        FROM bid {WINDOW} GROUP BY auction, {_DAY}""",
    "q18": f"""
        SELECT auction, bidder, price, channel, url, `dateTime`, extra
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rank_number
              FROM bid {WINDOW})
        WHERE rank_number <= 1""",
    "q19": f"""
        SELECT * FROM
            (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid {WINDOW})
        WHERE rank_number <= 10""",
    "q20": f"""
        SELECT auction, bidder, price, channel, url, B.`dateTime`, B.extra, itemName, description, initialBid,
            reserve, A.`dateTime`, expires, seller, category, A.extra
        FROM bid AS B {WINDOW} INNER JOIN auction AS A {WINDOW} on B.auction = A.id WHERE A.category = 10""",
    "q21": """
        SELECT auction, bidder, price, channel,
            CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
                 WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
                 ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        where REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) is not null
            or lower(channel) in ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) as dir1, SPLIT_INDEX(url, '/', 4) as dir2,
            SPLIT_INDEX(url, '/', 5) as dir3
        FROM bid""",
    "q23": f"""
        SELECT bidder, price, channel, url, B.extra AS bid_extra, P.id AS person_id, name, emailAddress, creditCard,
            city, state, P.extra AS person_extra, itemName, description, initialBid, reserve,
            A.dateTime AS auction_dateTime, expires, seller, category, A.extra AS auction_extra
        FROM bid B {WINDOW} JOIN person P {WINDOW} ON P.id = B.bidder JOIN auction A {WINDOW} ON A.seller = B.bidder""",
}

_NEAR = "{0}.dateTime > {1}.dateTime - INTERVAL 10 SECONDS AND {0}.dateTime < {1}.dateTime + INTERVAL 10 SECONDS"
_PERSON_WINDOWS = "SELECT id, name, window FROM person GROUP BY id, name, window(dateTime, '10 seconds')"
_SELLER_WINDOWS = "SELECT seller, window FROM auction GROUP BY seller, window(dateTime, '10 seconds')"
BUILTIN = {
    **{name: QUERIES[name] for name in ("q0", "q1", "q2", "q10", "q14", "q21")},
    "q3": f"""
        SELECT P.name, P.city, P.state, A.id
        FROM auction A JOIN person P ON A.seller = P.id AND {_NEAR.format("A", "P")}
        WHERE A.category = 10 and P.state IN ('OR', 'ID', 'CA')""",
    "q8": f"""
        SELECT P.id, P.name, P.window.start FROM ({_PERSON_WINDOWS}) P JOIN ({_SELLER_WINDOWS}) A
        ON P.id = A.seller AND P.window = A.window""",
    "q12": """
        SELECT bidder, count(*), window.start, window.end FROM bid GROUP BY bidder, window(dateTime, '10 seconds')""",
    "q13": QUERIES["q13"],
    "q20": f"""
        SELECT auction, bidder, price, channel, url, B.dateTime, B.extra, itemName, description, initialBid,
            reserve, A.dateTime, expires, seller, category, A.extra
        FROM bid B JOIN auction A ON B.auction = A.id AND {_NEAR.format("A", "B")} WHERE A.category = 10""",
    "q22": """
        SELECT auction, bidder, price, channel,
            split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6)
        FROM bid""",
}
"""Those that Spark can run over streams, in its SQL: joins with the time between rows as a condition.

A join of three streams it refuses, as the time of each would be an event time of the answer.
"""
SAME_ROWS = BUILTIN.keys() - {"q8", "q12"}
"""Of these the others tell of a window once, when it is over."""
