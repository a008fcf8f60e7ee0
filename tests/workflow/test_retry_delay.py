"""The backoff of seed 002: base * 2^(attempt - 1) * (1 +/- jitter), capped; judged as a distribution, not by one sample."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import TEMPLATE, fresh_database
from tests.workflow.engine import Engine


@pytest.fixture(scope="module")
def engine(server: Any) -> Iterator[Engine]:
    """One database for all of these tests, which only look."""
    with fresh_database(server, TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set default_transaction_read_only = on")
        yield Engine(connection)


DELAYS = "select extract(epoch from tasker.retry_delay(%s, %s * interval '1 s', %s * interval '1 s', %s))::float8"


def samples(engine: Engine, attempt: int, base: float = 2, cap: float = 60, jitter: float = 0.25) -> list[float]:
    return engine.column(f"{DELAYS} from generate_series(1, 2000)", attempt, base, cap, jitter)


@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
def test_delays_double_and_spread_evenly(engine: Engine, attempt: int) -> None:
    """2,000 samples: every one inside +/- 25 %, the mean in the middle, both ends reached, no two steps in line."""
    middle = 2 * 2 ** (attempt - 1)
    delays = samples(engine, attempt)
    assert min(delays) >= middle * 0.75
    assert max(delays) <= middle * 1.25
    # the mean of 2,000 uniform samples is off by more than 2 % once in 10^9 runs
    assert statistics.fmean(delays) == pytest.approx(middle, rel=0.02)
    assert statistics.pstdev(delays) == pytest.approx(middle * 0.25 / 3**0.5, rel=0.1)
    assert min(delays) < middle * 0.8
    assert max(delays) > middle * 1.2
    assert len(set(delays)) > 1900


@pytest.mark.parametrize("attempt", [6, 7, 30, 31, 32, 62, 63, 64, 1023, 1024, 1100, 2_000_000_000, 2_147_483_647])
def test_the_cap_holds_for_every_attempt(engine: Engine, attempt: int) -> None:
    """B11: 2^attempt overflows from attempt 31 (int), 63 (bigint), 1024 (double) on; here nothing ever raises."""
    delays = samples(engine, attempt)
    assert max(delays) <= 60
    assert min(delays) > 0
    assert (min(delays) == 60) == (attempt > 6), "from the seventh attempt on even the shortest is over the cap"


@pytest.mark.parametrize("attempt", [0, -1, -2_147_483_647])
def test_no_attempt_counts_as_the_first(engine: Engine, attempt: int) -> None:
    assert samples(engine, attempt, jitter=0)[0] == 2


def test_extreme_settings(engine: Engine) -> None:
    assert set(samples(engine, 50, base=0, cap=60)) == {0}
    assert max(samples(engine, 50, base=31_536_000, cap=31_536_000, jitter=1)) == 31_536_000
    assert set(samples(engine, 50, base=60, cap=0)) == {0}
    whole = samples(engine, 1, base=10, cap=60, jitter=1)
    assert min(whole) >= 0
    assert max(whole) <= 20
    assert statistics.fmean(whole) == pytest.approx(10, rel=0.1)
    assert set(samples(engine, 3, jitter=0)) == {8}


@settings(max_examples=100, deadline=None)
@given(
    attempt=st.integers(-5, 2**31 - 1),
    base=st.floats(0, 31_536_000).map(lambda seconds: round(seconds, 6)),  # an interval counts microseconds
    cap=st.floats(0, 31_536_000).map(lambda seconds: round(seconds, 6)),
    jitter=st.floats(0, 1),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_the_delay_is_that_of_a_small_model(
    engine: Engine, attempt: int, base: float, cap: float, jitter: float, draw: float
) -> None:
    """The same sum, in Python's unbounded numbers."""
    expected = min(cap, base * 2 ** min(max(attempt - 1, 0), 60) * (1 + jitter * (2 * draw - 1)))
    query = (
        "select extract(epoch from tasker.retry_delay(%s, %s * interval '1 s', %s * interval '1 s',"
        " %s::float8, %s::float8))::float8"
    )
    assert engine.one(query, attempt, base, cap, jitter, draw) == pytest.approx(max(expected, 0), rel=1e-6, abs=1e-5)
