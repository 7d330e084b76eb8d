"""The online auction of the Nexmark benchmark: people register, open auctions and bid for what others sell.

    person(id, name, emailAddress, creditCard, city, state, dateTime, extra)
    auction(id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra)
    bid(auction, bidder, price, channel, url, dateTime, extra)

Of fifty events one is a person, the next three are auctions, the others bids, evenly spaced in time; which auctions are
hot, how long they last and what things cost is drawn as the benchmark's own generator does it, with its defaults. So a
bid may name an auction or a bidder that comes a little later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.arrow_columns import times_column
from sash.lab.workloads.law import check_seed
from sash.lab.workloads.workload import WorkloadStream, check_pace, cut_rows

_TIME = pa.timestamp("us")
_TEXT = pa.string()
PERSON = pa.schema(
    [
        *(("id", pa.int64()), ("name", _TEXT), ("emailAddress", _TEXT), ("creditCard", _TEXT), ("city", _TEXT)),
        *(("state", _TEXT), ("dateTime", _TIME), ("extra", _TEXT)),
    ]
)
AUCTION = pa.schema(
    [
        *(("id", pa.int64()), ("itemName", _TEXT), ("description", _TEXT), ("initialBid", pa.int64())),
        *(("reserve", pa.int64()), ("dateTime", _TIME), ("expires", _TIME), ("seller", pa.int64())),
        *(("category", pa.int64()), ("extra", _TEXT)),
    ]
)
BID = pa.schema(
    [
        *(("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64()), ("channel", _TEXT)),
        *(("url", _TEXT), ("dateTime", _TIME), ("extra", _TEXT)),
    ]
)
SIDE_INPUT_ROWS = 10_000

_FIRST_ID = 1000
_FIRST_CATEGORY, _N_CATEGORIES = 10, 5
_IN_TURN = 50
_FIRST_OF_TURN = {"person": (0, 1), "auction": (1, 3), "bid": (4, 46)}
"""Of each fifty events, which is the first of a stream, and how many follow one another."""
_BATCH = 100
"""Of so many people or auctions one is hot: the newest batch's first; hot bidders are the second ones."""
_HOT_AUCTION, _HOT_PERSON = 1 / 2, 3 / 4
_LEAD = 10
_N_ACTIVE_PEOPLE, _N_IN_FLIGHT = 1000, 100
_N_CHANNELS, _UNLABELLED = 10_000, 0.1
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
_FOUR_DIGITS = [f"{number:04}" for number in range(10_000)]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
_FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]


@dataclass(frozen=True, slots=True)
class Nexmark:
    """`rate` is that of all events together, per second of event time."""

    rate: float = 1000.0
    duration_us: int = 60_000_000
    seed: int = 1

    def __post_init__(self):
        check_pace(self.rate, self.duration_us)
        check_seed(self.seed)

    @property
    def start_us(self) -> int:
        return START_US

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return tuple(
            WorkloadStream(name, schema, "dateTime")
            for name, schema in (("person", PERSON), ("auction", AUCTION), ("bid", BID))
        )

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        key = np.arange(SIDE_INPUT_ROWS)
        return {"side_input": pa.table({"key": key, "value": pa.array(key).cast(pa.string())})}

    @property
    def question(self) -> str:
        """How many bids sellers of each state had in the last ten seconds, and the highest."""
        return """SELECT P.state, COUNT(*) AS bids, MAX(B.price) AS highest
  FROM person P [RANGE 10 SECONDS], auction A [RANGE 10 SECONDS], bid B [RANGE 10 SECONDS]
  WHERE P.id = A.seller AND A.id = B.auction
  GROUP BY P.state"""

    def generate(self, stream: str) -> Iterator[pa.Table]:
        draw = {"person": self._draw_people, "auction": self._draw_auctions, "bid": self._draw_bids}[stream]
        events = self._events_of(stream)
        rng = np.random.default_rng([self.seed, list(_FIRST_OF_TURN).index(stream)])
        for rows in cut_rows(len(events)):
            yield draw(rng, events[rows])

    def _events_of(self, stream: str) -> np.ndarray:
        """The numbers of a stream's events among all."""
        events = np.arange(int(self.rate * self.duration_us / 1e6))
        first, n_events = _FIRST_OF_TURN[stream]
        return events[(events % _IN_TURN >= first) & (events % _IN_TURN < first + n_events)]

    def _times_ms(self, events: np.ndarray) -> np.ndarray:
        """Since the start: the benchmark's times are in milliseconds."""
        return (events * 1000 / self.rate).astype(np.int64)

    def _draw_people(self, rng: np.random.Generator, events: np.ndarray) -> pa.Table:
        n_rows = len(events)
        name = _joined(" ", _one_of(rng, _FIRST_NAMES, n_rows), _one_of(rng, _LAST_NAMES, n_rows))
        mail = _joined("", _words(rng, n_rows, 7), "@", _words(rng, n_rows, 5), ".com")
        card = _joined(" ", *(_one_of(rng, _FOUR_DIGITS, n_rows) for _ in range(4)))
        city, state = _one_of(rng, _CITIES, n_rows), _one_of(rng, _STATES, n_rows)
        columns = [_people_by(events) - 1 + _FIRST_ID, name, mail, card, city, state, _times(self._times_ms(events))]
        return pa.table([*columns, _words(rng, n_rows, 120, spread=24)], schema=PERSON)

    def _draw_auctions(self, rng: np.random.Generator, events: np.ndarray) -> pa.Table:
        n_rows, times_ms = len(events), self._times_ms(events)
        first_bid = _prices(rng, n_rows)
        # As long as it takes on the average until as many others are opened as are open at a time.
        horizon_ms = _N_IN_FLIGHT * _IN_TURN // _FIRST_OF_TURN["auction"][1] * 1000 / self.rate
        expires_ms = times_ms + 1 + rng.integers(0, max(1, int(2 * horizon_ms)), n_rows)
        columns = [
            *(_auctions_by(events) - 1 + _FIRST_ID, _words(rng, n_rows, 20, spread=10)),
            *(
                _words(rng, n_rows, 100, spread=50),
                first_bid,
                first_bid + _prices(rng, n_rows),
                _times(self._times_ms(events)),
            ),
            *(_times(expires_ms), _choose_people(rng, events, 0) + _FIRST_ID),
            _FIRST_CATEGORY + rng.integers(0, _N_CATEGORIES, n_rows),
        ]
        return pa.table([*columns, _words(rng, n_rows, 340, spread=68)], schema=AUCTION)

    def _draw_bids(self, rng: np.random.Generator, events: np.ndarray) -> pa.Table:
        n_rows, n_auctions = len(events), _auctions_by(events)
        lowest = np.maximum(n_auctions - 1 - _N_IN_FLIGHT, 0)
        any_auction = lowest + (rng.random(n_rows) * (n_auctions - lowest + _LEAD)).astype(np.int64)
        auction = np.where(rng.random(n_rows) < _HOT_AUCTION, _newest_batch(n_auctions), any_auction)
        channel, url = self._choose_channels(rng, n_rows)
        bidder = _choose_people(rng, events, 1)
        columns = [
            auction + _FIRST_ID,
            bidder + _FIRST_ID,
            _prices(rng, n_rows),
            channel,
            url,
            _times(self._times_ms(events)),
        ]
        return pa.table([*columns, _words(rng, n_rows, 68, spread=13)], schema=BID)

    def _choose_channels(self, rng: np.random.Generator, n_rows: int) -> tuple[pa.Array, pa.Array]:
        """Every other bid comes by one of four; of the others' addresses some do not tell the channel."""
        channels, urls = self._channels()
        is_hot = rng.random(n_rows) < 1 / 2
        n_hot = len(_HOT_CHANNELS)
        which = np.where(is_hot, rng.integers(0, n_hot, n_rows), n_hot + rng.integers(0, _N_CHANNELS, n_rows))
        return channels.take(pa.array(which)), urls.take(pa.array(which))

    def _channels(self) -> tuple[pa.Array, pa.Array]:
        rng = np.random.default_rng([self.seed, len(_FIRST_OF_TURN)])
        n_hot, number = len(_HOT_CHANNELS), pa.array(np.arange(_N_CHANNELS)).cast(pa.string())
        parts = [_words(rng, n_hot + _N_CHANNELS, 5) for _ in range(3)]
        base = _joined("/", "https://www.nexmark.com", *parts, "item.htm?query=1")
        label = _joined("", "&channel_id=", pa.array(rng.permutation(_N_CHANNELS)).cast(pa.string()))
        label = pc.if_else(pa.array(rng.random(_N_CHANNELS) < _UNLABELLED), "", label)
        urls = _joined("", base, pa.concat_arrays([pa.array([""] * n_hot), label]))
        return pa.concat_arrays([pa.array(_HOT_CHANNELS), _joined("", "channel-", number)]), urls


def _times(since_start_ms: np.ndarray) -> pa.Array:
    return times_column(START_US + since_start_ms * 1000)


def _people_by(events: np.ndarray) -> np.ndarray:
    """How many people there are when an event happens, itself included."""
    return events // _IN_TURN + 1


def _auctions_by(events: np.ndarray) -> np.ndarray:
    first, n_in_turn = _FIRST_OF_TURN["auction"]
    return events // _IN_TURN * n_in_turn + np.clip(events % _IN_TURN - first + 1, 0, n_in_turn)


def _newest_batch(n_there: np.ndarray) -> np.ndarray:
    """The first of the newest hundred."""
    return np.maximum(n_there - 1, 0) // _BATCH * _BATCH


def _choose_people(rng: np.random.Generator, events: np.ndarray, hot: int) -> np.ndarray:
    """By event, somebody: mostly one of each batch, the `hot`th, else any who is active, or will soon register."""
    n_people = _people_by(events)
    n_active = np.minimum(n_people, _N_ACTIVE_PEOPLE)
    anybody = n_people - n_active + (rng.random(len(events)) * (n_active + _LEAD)).astype(np.int64)
    return np.where(rng.random(len(events)) < _HOT_PERSON, _newest_batch(n_people) + hot, anybody)


def _prices(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Cents, between one and a million dollars: each number of digits is equally likely."""
    return np.round(10 ** (rng.random(n_rows) * 6) * 100).astype(np.int64)


def _one_of(rng: np.random.Generator, words: list[str], n_rows: int) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), n_rows)))


def _words(rng: np.random.Generator, n_rows: int, length: int, spread: int = 0) -> pa.Array:
    """Random letters: so many, give or take the spread."""
    lengths = rng.integers(length - spread, length + spread + 1, n_rows)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = _LETTERS[rng.integers(0, len(_LETTERS), ends[-1], dtype=np.uint8)]
    return pa.StringArray.from_buffers(n_rows, pa.py_buffer(ends), pa.py_buffer(letters))


def _joined(between: str, *parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, between)
