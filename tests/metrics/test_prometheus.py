"""The text for Prometheus: its own parser reads it, and it counts every transition once, however often it is scraped."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg.types.json import Jsonb

from tests.cli.conftest import Cli
from tests.kernel.engine import Engine, chain

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Samples:
    """(name, labels) -> value; a sample that comes twice fails."""
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
    return samples


def scrape(engine: Engine) -> Samples:
    return parse(engine.one("select tasker.prometheus_metrics()"))


def of(samples: Samples, name: str, **labels: str) -> dict[tuple[str, ...], float]:
    """Samples of a name that have these labels -> by the values of their other labels, in the order of their names."""
    return {
        tuple(value for label, value in sorted(found) if label not in labels): number
        for (sample, found), number in samples.items()
        if sample == name and labels.items() <= dict(found).items()
    }


def test_every_transition_is_counted_once(history: Engine) -> None:
    expected = Counter(
        (line["trigger"], line["from_state"] or "", line["lifecycle"], line["to_state"])
        for line in history.values("select tasker.export_transitions()")
    )
    for _ in range(3):
        assert of(scrape(history), "pgtasker_transitions_total") == expected


def test_entities_are_where_they_are(history: Engine) -> None:
    current: Counter[tuple[str, str]] = Counter()
    for log in ("task", "workflow_step", "worker", "circuit_breaker", "attached"):
        rows = history.rows(
            f"select lifecycle, to_state, count(*) from tasker.{log}_transitions where most_recent group by 1, 2"
        )
        current.update({(row["lifecycle"], row["to_state"]): row["count"] for row in rows})
    entities = of(scrape(history), "pgtasker_entities")
    assert {key: value for key, value in entities.items() if value} == current
    assert len(entities) == history.one("select count(*) from tasker.lifecycle_states")


def test_time_in_state_is_a_histogram(history: Engine) -> None:
    samples = scrape(history)
    for row in history.rows("select * from tasker.metrics_time_in_state"):
        labels = {"lifecycle": row["lifecycle"], "state": row["state"]}
        (count,) = of(samples, "pgtasker_time_in_state_seconds_count", **labels).values()
        (total,) = of(samples, "pgtasker_time_in_state_seconds_sum", **labels).values()
        assert count == row["visits"]
        assert total == pytest.approx(row["visits"] * row["avg_seconds"])
        buckets = {
            float(le): value for (le,), value in of(samples, "pgtasker_time_in_state_seconds_bucket", **labels).items()
        }
        in_order = [buckets[bound] for bound in sorted(buckets)]
        assert len(in_order) == 11
        assert in_order == sorted(in_order)
        assert in_order[-1] == count
        for bound, value in buckets.items():
            if bound != float("inf"):
                assert value == history.one(
                    "select count(*) from tasker.metrics_state_visits where lifecycle = %s and state = %s and seconds <= %s",
                    row["lifecycle"], row["state"], bound,
                )  # fmt: skip


def test_gauges(engine: Engine) -> None:
    engine.task([{"name": f"s{n}"} for n in range(5)])
    worker = engine.one("select tasker.register_worker('w', p_max_concurrent => 8)")
    (claimed, *_) = engine.claim(worker, limit=2)
    engine.report({"step_uuid": claimed["workflow_step_uuid"], "claim_uuid": None})
    samples = scrape(engine)
    assert of(samples, "pgtasker_queue_depth", namespace="default") == {("worker_default_queue",): 3}
    assert of(samples, "pgtasker_worker_capacity_steps") == {("tasker",): 8}
    assert of(samples, "pgtasker_worker_held_steps") == {("tasker",): 2}
    assert sum(of(samples, "pgtasker_rejected_transitions_total").values()) == 1
    assert of(samples, "pgtasker_info") == {(engine.one("select tasker.schema_version()"),): 1}
    assert of(samples, "pgtasker_overdue_timers") == {(): 0}
    assert of(samples, "pgtasker_metrics_catching_up") == {(): 0}


def test_what_is_not_committed_yet_is_counted_later_and_once(engine: Engine, connect: Callable[..., Any]) -> None:
    def created() -> float:
        return sum(of(scrape(engine), "pgtasker_transitions_total", lifecycle="tasker.task", from_state="").values())

    engine.one("select tasker.ensure_namespace('default')")  # a new one would make the second wait for the first
    older = Engine(connect(autocommit=False))
    older.task(chain("a"))
    engine.task(chain("b"))
    assert created() <= 1
    older.conn.commit()
    assert [created(), created()] == [2, 2]
    lost = Engine(connect(autocommit=False))
    lost.task(chain("c"))
    lost.conn.rollback()
    assert created() == 2


def test_scrapes_beside_work_and_each_other_count_right(engine: Engine, connect: Callable[..., Any]) -> None:
    failures: list[BaseException] = []
    over = threading.Event()

    def scrape_on(reader: Engine) -> None:
        try:
            while not over.is_set():
                scrape(reader)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=scrape_on, args=(Engine(connect()),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    worker = engine.worker()
    for _ in range(10):
        engine.task([{"name": f"s{n}"} for n in range(10)])
        engine.finish(worker)
    over.set()
    for thread in threads:
        thread.join(30)
    assert failures == []
    counted = sum(of(scrape(engine), "pgtasker_transitions_total").values())
    assert counted == engine.one("select sum(transitions) from tasker.metrics_transition_counts")


def test_counting_goes_on_from_where_it_was(engine: Engine) -> None:
    """A call begins no further statement after so many log rows, which may each have written thousands."""
    engine.rows("select tasker.register_template(%s)", Jsonb({"name": "t", "version": "1", "steps": chain("a")}))
    for number in (1, 40, 3, 3, 60, 1):
        engine.rows("select tasker.create_tasks(%s)", Jsonb([{"name": "t"}] * number))
    written = engine.values("select cardinality(transition_uuids) from tasker.changes order by change_id")
    expected_numbers = []
    while written:
        taken = 0
        while taken < len(written) and sum(written[:taken]) < 50:
            taken += 1
        expected_numbers.append(taken)
        del written[:taken]
    folded = []
    while number := engine.one("select tasker.metrics_fold(50)"):
        folded.append(number)
    assert folded == expected_numbers and len(folded) > 3
    expected = engine.rows(
        "select coalesce(from_state, '') as f, event, to_state, transitions from tasker.metrics_transition_counts"
    )
    counted = engine.rows("select from_state as f, event, to_state, transitions from tasker.metrics_transition_totals")
    assert sorted(map(str, counted)) == sorted(map(str, expected))


def test_a_reader_that_may_not_write_sees_what_was_counted(engine: Engine) -> None:
    engine.task(chain("a"))
    before = scrape(engine)
    engine.task(chain("b"))
    engine.run("set default_transaction_read_only = on")
    name = "pgtasker_transitions_total"
    assert of(scrape(engine), name) == of(before, name)


def test_labels_are_quoted(engine: Engine) -> None:
    value = 'a "quoted" \\ text\nin two lines'
    text = "# HELP x y\n# TYPE x gauge\nx{" + engine.one("select tasker.metrics_label('l', %s)", value) + "} 1\n"
    assert parse(text) == {("x", frozenset({("l", value)})): 1}


def test_the_command_and_the_file(lived: str, history: Engine, run_cli: Cli, tmp_path: Path) -> None:
    expected = of(scrape(history), "pgtasker_transitions_total")
    assert (
        of(parse(run_cli("metrics", "--prometheus", PGTASKER_DSN=lived).stdout), "pgtasker_transitions_total")
        == expected
    )
    target = tmp_path / "pgtasker.prom"
    target.write_text("old")
    run_cli("metrics", "--file", target, PGTASKER_DSN=lived)
    assert of(parse(target.read_text()), "pgtasker_transitions_total") == expected
    assert [path.name for path in tmp_path.iterdir()] == ["pgtasker.prom"]
    run_cli("metrics", "--file", tmp_path / "no" / "such.prom", PGTASKER_DSN=lived, expect=2)


def test_a_monitor_needs_nothing_more_than_its_role(engine: Engine, login: Callable[..., str]) -> None:
    engine.task(chain("a"))
    with psycopg.connect(login("tasker_monitor"), autocommit=True) as conn:
        assert of(scrape(Engine(conn)), "pgtasker_transitions_total") == of(
            scrape(engine), "pgtasker_transitions_total"
        )
