"""Laws 1 to 4 and 8 over whatever a user may write: generated statements, with oracles that know nothing of Sash.

A statement is drawn as a tree of its own. From that tree come the text that Sash reads, and the plain SQL over all
instants that DuckDB answers, and SQLite where it understands it. Rows come at once, in cuts, or in a session.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import Phase, settings

import sash
from support.generated.choices import Choices, shrink
from support.generated.features import EXPECTED, features_of
from support.generated.run import draw_case, run_case
from support.generated.volume import check_all
from support.identities import IdentityWatch
from support.profiles import SEED, by_profile, volume

N_CASES = volume(dev=15, ci=300, deep=10_000)
N_SHRINKS = 300 if Phase.shrink in settings().phases else 0
CHUNK = min(N_CASES, 50)
FIRST_SEED = by_profile(dev=0, ci=0, deep=1_000_000 * SEED)


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + N_CASES, CHUNK))
def test_answers_are_those_of_plain_sql(first: int) -> None:
    tally = check_all(range(first, first + CHUNK), N_SHRINKS)
    assert not tally.n_wrong, "\n\n".join(tally.problems)
    assert tally.refused.total() < CHUNK / 2, f"too much is refused: {tally.refused.most_common(5)}"


@pytest.mark.slow
def test_everything_is_drawn() -> None:
    drawn = set().union(*(features_of(draw_case(Choices(seed))) for seed in range(3_000))) - {""}
    assert drawn == set(EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + N_CASES // 10, CHUNK))
def test_identities_tell_the_living_apart(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    watches = []
    start = sash.query

    def start_watched(text, **frames):
        running = start(text, **frames)
        watches.append(IdentityWatch(running))
        return running

    monkeypatch.setattr("sash.query", start_watched)
    for seed in range(first, first + CHUNK):
        n_watched = len(watches)
        with suppress(sash.SashError):
            run_case(draw_case(Choices(seed), way="cuts"), may_restart=False)
            for watch in watches[n_watched:]:
                watch.finish()
    assert sum(watch.n_checked for watch in watches)


def test_a_case_is_made_small() -> None:
    """Of decisions that must hold a 7 and, later, a 3, nothing else is left."""
    made = [5, 9, 7, 8, 8, 3, 1, 6]
    assert shrink(made, lambda made: 7 in made and 3 in made[made.index(7) :]) == [7, 3]


def test_the_same_seed_draws_the_same_case() -> None:
    for seed in range(50):
        case = draw_case(Choices(seed))
        assert str(draw_case(Choices(seed))) == str(draw_case(Choices(replayed=case.made))) == str(case)
