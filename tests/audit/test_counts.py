"""Counts of what is sealed: exact for every period, here and in the archive, and found out when they are tampered with."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgtasker.migrate import MIGRATIONS
from tests.audit.evidence import live, seal, triggers_off, verify, work
from tests.audit.test_reports import ALWAYS, report
from tests.audit.test_retention import age, archive, done, policy, purge
from tests.kernel.engine import Engine, Row, chain

PERIOD = "%s::timestamptz, %s::timestamptz"
MEASURES = ("changes", "rows", "sealed_rows", "tasks", "results", "failures", "unaudited")

BY_HAND = """
with moments as (
  select c.recorded_at as at, c.log, 1 as changes, cardinality(c.transition_uuids) as rows,
         case when exists (select from tasker.audit_seals s where s.change_ids @> c.change_id) then cardinality(c.transition_uuids) else 0 end
           as sealed_rows, 0 as tasks, 0 as results, 0 as failures, 0 as unaudited
    from tasker.changes c
  union all
  select created_at, 'task', 0, 0, 0, 1, 0, 0, 0 from tasker.task_transitions where from_state is null
  union all
  select to_timestamp((content::jsonb ->> 12)::numeric / 1000000), 'task', 0, 0, 0, 1, 0, 0, 0
    from tasker.archived_rows where log = 'task' and content::jsonb ->> 7 is null
  union all
  select recorded_at, 'step', 0, 0, 0, 0, 1, (not success)::int, 0 from tasker.workflow_step_result_audit
  union all
  select to_timestamp((audit_content::jsonb ->> 7)::numeric / 1000000), 'step', 0, 0, 0, 0, 1, (audit_content::jsonb ->> 10 = 'false')::int, 0
    from tasker.archived_rows where audit_content is not null
  union all
  select t.created_at, 'step', 0, 0, 0, 0, 0, 0, 1
    from tasker.workflow_step_transitions t
    join tasker.lifecycle_transitions r on (r.lifecycle, r.from_state, r.event, r.to_state) = (t.lifecycle, t.from_state, t.event, t.to_state)
   where r.reports_result and not exists (select from tasker.workflow_step_result_audit a
                                           where a.workflow_step_transition_uuid = t.workflow_step_transition_uuid)
)
select (at at time zone 'UTC')::date as day, log, sum(changes)::bigint as changes, sum(rows)::bigint as rows,
       sum(sealed_rows)::bigint as sealed_rows, sum(tasks)::bigint as tasks, sum(results)::bigint as results,
       sum(failures)::bigint as failures, sum(unaudited)::bigint as unaudited
  from moments where at >= %s and at < %s group by 1, 2 order by 1, 2
"""


def counts(engine: Engine, first: object, last: object) -> list[Row]:
    return engine.rows("select * from tasker.report_counts(%s, %s) order by day, log", first, last)


def spread(engine: Engine, days: int = 40) -> None:
    """As if what happened had happened over some days, with rows on the borders of buckets."""
    logs = [
        ("task_transitions", "created_at"), ("workflow_step_transitions", "created_at"),
        ("workflow_step_result_audit", "recorded_at"), ("changes", "recorded_at"),
    ]  # fmt: skip
    with triggers_off(engine, *(table for table, _ in logs)):
        for table, column in logs:
            engine.run(
                f"update tasker.{table} set {column} = case (random() * 3)::int"
                f" when 0 then date_trunc('day', {column}) when 1 then date_trunc('minute', {column}) else {column} end"
                f" - (random() * %s)::int * interval '1 day' - (random() * 100)::int * interval '10 seconds'",
                days,
            )


def periods(engine: Engine) -> list[tuple[Any, Any]]:
    """Ends on rows, on borders of buckets, beside them, and none at all."""
    moments = engine.values(
        "select recorded_at from tasker.changes union select recorded_at from tasker.workflow_step_result_audit"
        " union select created_at from tasker.task_transitions order by 1"
    )
    chance = random.Random(2026)
    day = timedelta(days=1)
    found: list[tuple[Any, Any]] = [("-infinity", "infinity"), ("infinity", "-infinity"), (moments[0], moments[-1])]
    for _ in range(40):
        first, last = sorted(chance.sample(moments, 2))
        first, last = chance.choice(
            [
                (first, last),
                (first + timedelta(microseconds=1), last),
                (first.replace(hour=0, minute=0, second=0, microsecond=0), last + chance.random() * day),
                (first, first + chance.random() * timedelta(seconds=30)),
                (first.replace(second=0, microsecond=0), last.replace(second=10, microsecond=0)),
                ("-infinity", last),
                (first, "infinity"),
            ]
        )
        found.append((first, last))
    return found


@pytest.fixture(scope="module")
def grown(shared_conn: psycopg.Connection[tuple[object, ...]]) -> Iterator[Engine]:
    """A database with weeks of work, of which some is archived, some sealed and some not."""
    engine = Engine(shared_conn)
    live(engine)
    policy(engine)
    for _ in range(30):
        work(engine)
    old = [done(engine) for _ in range(10)]
    spread(engine)
    seal(engine, limit=200)
    age(engine, "1 year", *old)
    assert archive(engine)["tasks"] == len(old)
    for _ in range(10):
        work(engine)
    spread(engine, days=0)  # what is not sealed lies on borders as well
    engine.run("truncate tasker.audit_counts")  # the dates of sealed rows were changed
    engine.run(backfill())
    yield engine


def backfill() -> str:
    """What the migration does with what was sealed before it."""
    script = (MIGRATIONS / "sql" / "0018_counts.sql").read_text(encoding="utf-8")
    (statement,) = re.findall(r"^with sealed as materialized.*?;$", script, re.MULTILINE | re.DOTALL)
    return str(statement)


def test_counts_are_what_counting_by_hand_gives(grown: Engine) -> None:
    for first, last in periods(grown):
        assert counts(grown, first, last) == grown.rows(BY_HAND, first, last), (first, last)


def test_parts_of_a_period_are_the_whole_period_once(rules: Engine) -> None:
    chance = random.Random(7)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    for _ in range(300):
        first = start + timedelta(microseconds=chance.randrange(0, 10 ** chance.randrange(1, 14)))
        last = first + timedelta(microseconds=chance.randrange(0, 10 ** chance.randrange(1, 14)))
        parts = rules.rows(f"select * from tasker.period_parts({PERIOD}) order by lower", first, last)
        assert [part["lower"] for part in parts] == [first, *(part["upper"] for part in parts)][: len(parts)]
        assert not parts or parts[-1]["upper"] == last
        assert bool(parts) == (first < last)
        for part in parts:
            if part["width"] is None:
                assert part["upper"] - part["lower"] < timedelta(seconds=20)
            else:
                for end in (part["lower"], part["upper"]):
                    assert end.timestamp() % part["width"] == 0
        assert sum(part["width"] is None for part in parts) <= 2


def test_a_late_commit_is_counted_where_it_belongs(engine: Engine, connect: Any) -> None:
    engine.run("select tasker.ensure_namespace('default')")
    late = Engine(connect())
    late.conn.autocommit = False
    late.task(chain("only"))
    work(engine)
    seal(engine)
    moment = engine.one("select clock_timestamp()")
    late.conn.commit()
    assert counts(engine, "-infinity", "infinity") == engine.rows(BY_HAND, "-infinity", "infinity")
    seal(engine)
    assert counts(engine, "-infinity", moment) == engine.rows(BY_HAND, "-infinity", moment)
    assert verify(engine) == []


def test_the_purge_takes_its_tasks_off_the_counts(engine: Engine) -> None:
    policy(engine, purge="30 days")
    old = [done(engine) for _ in range(3)]
    work(engine)
    age(engine, "1 year", *old)
    archive(engine)
    before = counts(engine, "-infinity", "infinity")
    assert before == engine.rows(BY_HAND, "-infinity", "infinity")
    assert purge(engine)["tasks"] == 3
    after = counts(engine, "-infinity", "infinity")
    assert after == engine.rows(BY_HAND, "-infinity", "infinity")
    assert sum(row["results"] for row in before) - sum(row["results"] for row in after) == 6
    seal(engine)
    assert verify(engine) == []


@pytest.mark.parametrize(
    "statement",
    [f"update tasker.audit_counts set {measure} = {measure} + 1 where ctid = (select min(ctid) from tasker.audit_counts)"
     for measure in MEASURES if measure != "sealed_rows"]
    + ["delete from tasker.audit_counts where width = 900",
       "insert into tasker.audit_counts (width, bucket, log, results) values (10, '2020-01-01', 'step', 1)",
       "truncate tasker.audit_counts"],
)  # fmt: skip
def test_counts_that_somebody_changed_are_named(engine: Engine, statement: str) -> None:
    work(engine)
    seal(engine)
    work(engine)
    assert verify(engine) == []
    engine.run(statement)
    (found,) = verify(engine)
    assert found["finding"] == "count_changed"
    assert found["detail"]["kept"] != found["detail"]["counted"]


def test_a_result_that_was_sealed_without_an_audit_row_is_counted_as_such(engine: Engine) -> None:
    work(engine)
    with triggers_off(engine, "workflow_step_result_audit"):
        engine.run("delete from tasker.workflow_step_result_audit where success and ctid = (select min(ctid) from tasker.workflow_step_result_audit)")  # fmt: skip
    at = engine.one("select at from tasker.counted_rows where kind = 'unaudited'")
    for _ in range(2):
        for first, last in (
            ("-infinity", "infinity"),
            (at, at + timedelta(microseconds=1)),
            (at, at + timedelta(seconds=15)),
        ):
            (step,) = [row for row in counts(engine, first, last) if row["log"] == "step"]
            assert step["unaudited"] == 1
            assert counts(engine, first, last) == engine.rows(BY_HAND, first, last)
        seal(engine)


# -- samples


def numbered(engine: Engine, kind: str, first: object, last: object) -> list[Any]:
    return engine.values("select row_uuid from tasker.counted_rows where kind = %s and at >= %s and at < %s order by at, row_uuid", kind, first, last)  # fmt: skip


@pytest.mark.parametrize("kind", ["result", "task"])
def test_each_number_finds_its_row(grown: Engine, kind: str) -> None:
    for first, last in periods(grown)[:12]:
        rows = numbered(grown, kind, first, last)
        found = grown.rows(
            "select ordinal, row_uuid from tasker.numbered_rows(%s, %s, %s, array(select generate_series(1, %s::bigint)))",
            kind, first, last, len(rows),
        )  # fmt: skip
        assert [row["row_uuid"] for row in sorted(found, key=lambda row: int(row["ordinal"]))] == rows, (first, last)


def test_a_sample_can_be_drawn_with_a_pencil(grown: Engine) -> None:
    """The numbers as docs/audit.md describes them, the rows as report_population lists them."""
    import hashlib

    population = [row["row_uuid"] for row in report(grown, "population", f"'results', {ALWAYS}")]
    numbers: list[int] = []
    draw = 0
    while len(numbers) < 5:
        draw += 1
        number = 1 + int(hashlib.sha256(f"2026:{draw}".encode()).hexdigest()[:15], 16) % len(population)
        if number not in numbers:
            numbers.append(number)
    sample = report(grown, "sample", f"'results', {ALWAYS}, 5, '2026'")
    assert [(row["ordinal"], row["population"], row["row_uuid"]) for row in sample] == [
        (number, len(population), population[number - 1]) for number in sorted(numbers)
    ]


def test_a_sample_of_all_is_all(grown: Engine) -> None:
    population = report(grown, "population", f"'tasks', {ALWAYS}")
    sample = report(grown, "sample", f"'tasks', {ALWAYS}, 100000, 'x'")
    assert [(row["row_uuid"], row["at"], row["record"]) for row in sample] == [
        (row["row_uuid"], row["at"], row["record"]) for row in population
    ]
    assert [row["ordinal"] for row in sample] == list(range(1, len(sample) + 1))


# -- pages


@pytest.mark.parametrize("kind", ["results", "tasks", "interventions", "refusals"])
def test_pages_of_a_population_are_the_population(grown: Engine, kind: str) -> None:
    whole = report(grown, "population", f"'{kind}', {ALWAYS}")
    assert whole == sorted(whole, key=lambda row: (row["at"], row["row_uuid"]))
    paged: list[Row] = []
    while page := report(
        grown, "population", f"'{kind}', {ALWAYS}, %s::timestamptz, %s::uuid, 7",
        *((paged[-1]["at"], paged[-1]["row_uuid"]) if paged else (None, None)),
    ):  # fmt: skip
        assert len(page) <= 7
        paged += page
    assert paged == whole


def test_pages_of_a_worker_are_all_that_it_did(engine: Engine) -> None:
    policy(engine)
    worker = engine.worker()
    old = [engine.task(chain("first", "second")) for _ in range(3)]
    engine.finish(worker)
    age(engine, "1 year", *old)
    assert archive(engine)["tasks"] == 3
    engine.task(chain("first", "second"))
    engine.finish(worker)
    whole = report(engine, "worker", f"%s, {ALWAYS}", worker)
    assert {row["is_archived"] for row in whole} == {True, False}
    assert [row["at"] for row in whole if row["log"] == "step"] == engine.values(
        "select at from tasker.counted_rows where kind = 'result' order by at, row_uuid"
    )
    paged: list[Row] = []
    while page := report(
        engine, "worker", f"%s, {ALWAYS}, %s::timestamptz, %s::uuid, 3", worker,
        *((paged[-1]["at"], paged[-1]["row_uuid"]) if paged else (None, None)),
    ):  # fmt: skip
        paged += page
    assert paged == whole
    assert len(whole) == len({row["row_uuid"] for row in whole})
