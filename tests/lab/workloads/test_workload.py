"""What every workload promises, and what the rows of each mean."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sash.errors import PlanError
from sash.lab.workloads.arrow_columns import read_times
from sash.lab.workloads.auction import Auction
from sash.lab.workloads.cameras import Cameras
from sash.lab.workloads.join_streams import JoinWorkload
from sash.lab.workloads.network import Network
from sash.lab.workloads.nexmark import Nexmark
from sash.lab.workloads.path import PathWorkload
from sash.lab.workloads.pqrs import Pqrs
from sash.lab.workloads.retail import Retail
from sash.lab.workloads.sensors import Sensors
from sash.lab.workloads.stores import DAY_US, OPEN_US, Stores
from sash.lab.workloads.workload import CHUNK_ROWS, Workload

SECOND = 1_000_000
WORKLOADS = [
    Sensors(duration_us=5 * SECOND),
    Sensors(arrivals="pareto", skew="zipf:1.2", duration_us=5 * SECOND),
    Retail(duration_us=20 * SECOND, arrivals="bmodel", skew="zipf"),
    Auction(duration_us=20 * SECOND),
    Network(duration_us=20 * SECOND, n_links=4),
    Stores(duration_us=DAY_US + OPEN_US, n_stores=4, skew="zipf"),
    Stores(duration_us=3600 * SECOND, arrivals="pareto"),
    Cameras(duration_us=60 * SECOND),
    PathWorkload(duration_us=60 * SECOND, skew="zipf"),
    JoinWorkload(2000, SECOND),
    Pqrs(duration_us=5 * SECOND),
    Nexmark(rate=200, duration_us=20 * SECOND),
]


def rows_of(workload: Workload, stream: str) -> pa.Table:
    return pa.concat_tables(workload.generate(stream))


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: type(each).__name__)
def test_streams_are_as_declared_and_always_the_same(workload):
    for stream in workload.streams:
        rows = rows_of(workload, stream.name)
        rows.validate(full=True)
        assert rows.schema == stream.schema
        times = read_times(rows.column(stream.time))
        assert np.all(np.diff(times) >= 0)
        assert workload.start_us <= times[0] <= times[-1] < workload.start_us + workload.duration_us
        assert rows.equals(rows_of(workload, stream.name))
    first, second = (read_times(rows_of(workload, each.name).column(each.time)) for each in workload.streams[:2])
    assert first.tolist() != second.tolist()


def test_another_seed_gives_other_rows():
    for kind in (Sensors, Retail, Auction, Network, Stores, Cameras, PathWorkload, Pqrs, Nexmark):
        stream = kind().streams[0].name
        assert not rows_of(kind(seed=1), stream).equals(rows_of(kind(seed=2), stream))


def test_long_streams_come_in_chunks():
    sizes = [
        rows.num_rows for rows in Sensors(rate=20_000, duration_us=10 * SECOND, arrivals="even").generate("humidity")
    ]
    assert sizes == [CHUNK_ROWS, 200_000 - CHUNK_ROWS]


def test_sensors_stay_near_the_level_of_their_location():
    rows = rows_of(Sensors(rate=1000, duration_us=20 * SECOND, n_keys=50), "temperature")
    by_location = rows.group_by("location").aggregate([("value", "mean"), ("value", "stddev")])
    assert by_location.num_rows == 50
    assert pc.mean(by_location["value_stddev"]).as_py() == pytest.approx(1.2, rel=0.1)
    assert pc.stddev(by_location["value_mean"]).as_py() == pytest.approx(4, rel=0.3)


def test_every_bid_is_for_an_auction_that_is_open():
    auction = Auction(rate=200, duration_us=60 * SECOND, lifetime_us=3 * SECOND, bids_per_auction=5)
    opened, bids = rows_of(auction, "OpenAuction"), rows_of(auction, "Bid")
    assert bids.num_rows / opened.num_rows == pytest.approx(5, rel=0.15)
    assert opened["item_id"].to_pylist() == list(range(opened.num_rows))
    item = bids["item_id"].to_numpy()
    age = read_times(bids["ts"]) - read_times(opened["ts"])[item]
    assert 0 <= age.min() <= age.max() < 3 * SECOND
    ratio = pc.divide(
        bids["bid_price"].cast(pa.float64()), opened["start_price"].cast(pa.float64()).take(bids["item_id"])
    )
    assert 0.99 <= pc.min(ratio).as_py() <= pc.max(ratio).as_py() <= 6


def test_nobody_bids_before_the_first_auction():
    auction = Auction(rate=1, bids_per_auction=20, duration_us=60 * SECOND, lifetime_us=5 * SECOND)
    first_opened = read_times(rows_of(auction, "OpenAuction")["ts"])[0]
    assert all(read_times(rows["ts"]).min(initial=first_opened) >= first_opened for rows in auction.generate("Bid"))


def test_of_fifty_events_one_is_a_person_and_three_are_auctions():
    nexmark = Nexmark(rate=5_000, duration_us=30 * SECOND)
    people, auctions, bids = (rows_of(nexmark, stream.name) for stream in nexmark.streams)
    assert [rows.num_rows for rows in (people, auctions, bids)] == [3_000, 9_000, 138_000]
    assert people["id"].to_pylist() == list(range(1000, 4000))
    assert auctions["id"].to_pylist() == list(range(1000, 10_000))
    n_bids = np.unique(bids["auction"].to_numpy(), return_counts=True)[1]
    assert np.sort(n_bids)[-90:].sum() / bids.num_rows == pytest.approx(0.5, abs=0.02), "every other bid is for them"
    assert np.mean(bids["auction"].to_numpy() < 10_000) > 0.99
    lasting = read_times(auctions["expires"]) - read_times(auctions["dateTime"])
    assert lasting.min() > 0
    assert lasting.mean() == pytest.approx(_time_of_a_hundred_auctions(nexmark), rel=0.05)
    prices = bids["price"].to_numpy()
    assert np.histogram(np.log10(prices), bins=6, range=(2, 8))[0] / len(prices) == pytest.approx(1 / 6, abs=0.01)
    n_labelled = sum("channel_id=" in url for url in bids["url"].to_pylist())
    assert n_labelled / bids.num_rows == pytest.approx(0.45, abs=0.01)


def _time_of_a_hundred_auctions(nexmark: Nexmark) -> float:
    return 100 * 50 / 3 / nexmark.rate * SECOND


def test_packets_are_seen_again_on_the_next_link_after_some_time():
    network = Network(rate=500, duration_us=60 * SECOND, n_links=3, through=0.3, arrivals="poisson")
    links = [rows_of(network, stream.name) for stream in network.streams]
    for link in links:
        assert link.num_rows == pytest.approx(30_000, rel=0.05)
        assert pc.count_distinct(link["pid"]).as_py() == link.num_rows
    for earlier, later in pairwise(links):
        both = earlier.join(later, "pid", join_type="inner", right_suffix="_later")
        assert both.num_rows / earlier.num_rows == pytest.approx(0.3, abs=0.02)
        assert all(both[name].equals(both[f"{name}_later"]) for name in ("src", "dst", "size"))
        travel = read_times(both["ts_later"]) - read_times(both["ts"])
        assert 0.09 * network.travel_us <= travel.min() <= travel.max() < network.travel_us


def test_delayed_packets_take_longer_than_any_other():
    made = {share: Network(rate=500, delayed=share, arrivals="poisson") for share in (0.0, 0.2)}
    links = {share: [rows_of(each, stream.name) for stream in each.streams] for share, each in made.items()}
    assert links[0.0][0].equals(links[0.2][0])
    customer, backbone = (link.select(["pid", "ts"]) for link in links[0.2])
    both = customer.join(backbone, "pid", join_type="inner", right_suffix="_later")
    travel = read_times(both["ts_later"]) - read_times(both["ts"])
    assert np.mean(travel >= made[0.2].travel_us) == pytest.approx(0.2, abs=0.02)
    assert travel.max() < 2 * made[0.2].travel_us


def test_all_or_none_of_the_packets_may_go_on():
    first, second = (rows_of(Network(through=1.0), name)["pid"].to_pylist() for name in ("customer", "backbone"))
    assert set(second) <= set(first)
    first, second = (rows_of(Network(through=0.0), name)["pid"].to_pylist() for name in ("customer", "backbone"))
    assert not set(second) & set(first)


def test_stores_sell_while_they_are_open_and_most_when_they_open_and_close():
    stores = Stores(rate=1, duration_us=DAY_US + OPEN_US, rush=5)
    elapsed = read_times(rows_of(stores, "store2")["ts"]) - stores.start_us
    assert len(elapsed) == pytest.approx(2 * OPEN_US / SECOND, rel=0.05)
    assert np.all(elapsed % DAY_US < OPEN_US)
    counts, _ = np.histogram(elapsed % DAY_US, 100, (0, OPEN_US))
    midday = counts[40:60].mean()
    assert counts[0] / midday == pytest.approx(5, rel=0.2)
    assert counts[-1] / midday == pytest.approx(5, rel=0.2)
    steady = Stores(rate=1, rush=1)
    counts, _ = np.histogram(read_times(rows_of(steady, "store1")["ts"]), 10)
    assert counts.max() / counts.min() < 1.1


def test_an_item_has_the_same_name_and_price_in_all_stores():
    stores = Stores(n_stores=4, n_keys=50)
    sold = pa.concat_tables(rows_of(stores, stream.name) for stream in stores.streams)
    assert sold.group_by(["ItemNum", "ItemName", "Price"]).aggregate([]).num_rows == 50
    assert "FROM store1 A, store2 B, store3 C, store4 D\n" in stores.question


def trips(workload: Cameras | PathWorkload) -> np.ndarray:
    """By object, when it was at each place; there must be more keys than rows for none to travel twice."""
    places = [rows_of(workload, stream.name).select(["ObjID", "ts"]) for stream in workload.streams]
    joined = places[0]
    for number, place in enumerate(places[1:]):
        joined = joined.join(place, "ObjID", join_type="inner", right_suffix=f"_{number}")
    return np.stack([read_times(column) for column in joined.columns[1:]], axis=1)


def test_objects_pass_cameras_in_any_order_and_some_linger():
    cameras = Cameras(n_keys=10**8, rate=20, missed=0.1, lingering=0.3)
    seen = trips(cameras)
    assert len(seen) / (cameras.rate * 600) == pytest.approx(0.9**3, abs=0.1)
    orders, counts = np.unique(np.argsort(seen, axis=1), axis=0, return_counts=True)
    assert len(orders) == 6
    assert counts.max() / counts.min() < 1.5
    first, second = np.sort(seen, axis=1)[:, :2].T
    windows = np.array([[0, cameras.ab_us, cameras.ac_us], [0, 0, cameras.bc_us], [0, 0, 0]])
    windows += windows.T
    longest = windows[tuple(np.argsort(seen, axis=1)[:, :2].T)]
    assert np.mean(second - first >= longest) == pytest.approx(0.3, abs=0.05)
    assert np.all(second - first < 2 * longest)
    assert np.all(second - first >= longest // 5)


def test_objects_go_along_a_path_in_both_directions():
    path = PathWorkload(n_keys=10**8, rate=20, missed=0, lingering=0)
    seen = trips(path)
    is_forward = seen[:, 0] < seen[:, 3]
    assert np.mean(is_forward) == pytest.approx(0.5, abs=0.05)
    legs = np.diff(seen, axis=1)
    assert np.all((legs > 0) == is_forward[:, None])
    assert np.all(abs(legs) < [path.ab_us, path.bc_us, path.cd_us])


def test_links_that_are_not_neighbours_have_no_window():
    assert "WINDOW 200 MILLISECONDS" in Network().question
    question = Network(n_links=4, travel_us=50_000).question
    assert question.count("WINDOW") == 3
    assert "WINDOW (C, B) = 50 MILLISECONDS AND WINDOW (B, E) = 50 MILLISECONDS AND WINDOW (E, R) = " in question


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Sensors(rate=0), "`rate` is 0, but must be above 0 rows per second"),
        (lambda: Sensors(duration_us=0), "`duration` is 0 microseconds, but must be at least one microsecond"),
        (lambda: Sensors(n_keys=0), "`keys` is 0, but must be 1 to 100,000,000"),
        (lambda: Sensors(seed=-1), "`seed` is -1, but must be 0 or more"),
        (lambda: Sensors(rate=1e9), "`rate` and `duration` ask for 60,000,000,000 rows per stream, but at most "),
        (lambda: Sensors(arrivals="x"), "`arrivals` is `x`, but there is no `x`; there is `bmodel`, `even`, "),
        (lambda: Network(n_links=5), "`n_links` is 5, but must be 2 to 4"),
        (lambda: Network(through=1.5), "`through` is 1.5, but must be a share, from 0 to 1"),
        (lambda: Network(delayed=-0.1), "`delayed` is -0.1, but must be a share, from 0 to 1"),
        (lambda: Stores(n_stores=5), "`n_stores` is 5, but must be 2 to 4"),
        (lambda: Stores(rush=0.5), "`rush` is 0.5, but must be 1, which is none, or more"),
        (lambda: Cameras(lingering=2), "`lingering` is 2, but must be a share, from 0 to 1"),
        (lambda: PathWorkload(missed=1), "`missed` is 1, but must be a share, from 0 and below 1"),
        (lambda: PathWorkload(cd_us=1), "`window` is 1 microseconds, but must be at least 10 microseconds"),
        (lambda: Auction(bids_per_auction=0), "`bids_per_auction` is 0, but must be above 0"),
    ],
)
def test_mistakes_have_reasons(make, reason):
    with pytest.raises(PlanError) as raised:
        make()
    assert str(raised.value).startswith(reason)
