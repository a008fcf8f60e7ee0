"""Times of cron expressions: against croniter, and where the clocks are set."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from croniter import croniter

from tests.workflow.engine import Engine

START = dt.datetime(2026, 1, 30, 22, 58, tzinfo=dt.UTC)


def times(engine: Engine, cron: str, zone: str = "UTC", after: dt.datetime = START, limit: int = 5) -> list[Any]:
    return engine.column("select tasker.cron_times(%s, %s, %s, null, %s)", cron, zone, after, limit)


def some_field(draw: random.Random, lowest: int, highest: int) -> str:
    one = str(draw.randint(lowest, highest))
    first, last = sorted(draw.sample(range(lowest, highest + 1), 2))
    step = draw.randint(1, max(1, (highest - lowest) // 2))
    return draw.choice(["*", "*", one, f"{first}-{last}", f"*/{step}", f"{first}-{last}/{step}", f"{one},{last}"])


def test_random_expressions_have_the_times_that_croniter_gives(engine: Engine) -> None:
    draw = random.Random(17)
    for _ in range(150):
        cron = " ".join(some_field(draw, *limits) for limits in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6)))
        after = START + dt.timedelta(minutes=draw.randrange(2_000_000))
        other = croniter(cron, after, implement_cron_bug=True)  # as cron itself reads "*/3" beside a day of the week
        expected = [other.get_next(dt.datetime) for _ in range(5)]
        assert times(engine, cron, after=after) == expected, (cron, after)


@pytest.mark.parametrize(
    ("cron", "as_much_as"),
    [
        ("@hourly", "0 * * * *"), ("@daily", "0 0 * * *"), ("@weekly", "0 0 * * 0"), ("@monthly", "0 0 1 * *"), ("@YEARLY", "0 0 1 1 *"),
        ("0 0 * * 7", "0 0 * * sun"), ("0 9 * jan-mar,DEC mon-fri", "0 9 * 1,2,3,12 1-5"), ("  5/10 *  * * * ", "5,15,25,35,45,55 * * * *"),
    ],
)  # fmt: skip
def test_names_and_shorthands(engine: Engine, cron: str, as_much_as: str) -> None:
    assert times(engine, cron, limit=30) == times(engine, as_much_as, limit=30)


def test_a_leap_day_comes_even_when_a_century_has_none(engine: Engine) -> None:
    assert times(engine, "0 12 29 2 *", after=dt.datetime(2096, 3, 1, tzinfo=dt.UTC), limit=1) == [
        dt.datetime(2104, 2, 29, 12, tzinfo=dt.UTC)
    ]
    assert times(engine, "0 12 30 2 *") == []


def local(engine: Engine, cron: str, after: dt.datetime, limit: int) -> list[str]:
    berlin = ZoneInfo("Europe/Berlin")
    return [f"{t.astimezone(berlin):%d %H:%M %Z}" for t in times(engine, cron, "Europe/Berlin", after, limit)]


def test_when_clocks_are_set_forth_a_named_hour_is_not_lost(engine: Engine) -> None:
    """In Berlin 02:00 to 03:00 is left out on 29 March 2026."""
    after = dt.datetime(2026, 3, 28, 0, 45, tzinfo=dt.UTC)
    assert local(engine, "30 2 * * *", after, 3) == ["28 02:30 CET", "29 03:30 CEST", "30 02:30 CEST"]
    assert local(engine, "30 * * * *", after + dt.timedelta(days=1), 2) == ["29 03:30 CEST", "29 04:30 CEST"]


def test_when_clocks_are_set_back_a_named_hour_comes_once_and_a_starred_one_twice(engine: Engine) -> None:
    """In Berlin 02:00 to 03:00 comes twice on 25 October 2026."""
    after = dt.datetime(2026, 10, 24, 23, 45, tzinfo=dt.UTC)
    assert local(engine, "30 2 * * *", after, 2) == ["25 02:30 CET", "26 02:30 CET"]
    assert local(engine, "30 * * * *", after, 3) == ["25 02:30 CEST", "25 02:30 CET", "25 03:30 CET"]


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *",
     "1,, * * * *", "-1 * * * *", "@often", "* * * foo *", "1' * * * *"],
)  # fmt: skip
def test_what_is_no_expression_is_refused(engine: Engine, cron: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        times(engine, cron)
    assert caught.value.sqlstate == "TK400" and "Five fields" in (caught.value.diag.message_hint or "")


def test_an_unknown_time_zone_and_a_limit_out_of_bounds_are_refused(engine: Engine) -> None:
    for zone, limit in (("Mars/Olympus", 5), ("", 5), ("UTC", 0), ("UTC", 100_001)):
        with pytest.raises(psycopg.Error) as caught:
            times(engine, "* * * * *", zone, limit=limit)
        assert caught.value.sqlstate == "TK400"
