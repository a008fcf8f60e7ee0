"""`python -m bench.audit [RESULTS]`: how long the audit takes to seal, to verify, to answer, to archive and to purge.

Makes that many reported results (1,000,000 by default: about ten minutes) with all that belongs to them, then times
each question of docs/audit.md over a thousandth, a hundredth or all of the period. Prints a table in Markdown.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from typing import Any, LiteralString

import psycopg

from bench import server
from pgtasker import migrate

STEPS = 100  # a task
BATCH = 1000  # steps in one claim
WORKERS = 20


def make(conn: psycopg.Connection[Any], results: int) -> list[Any]:
    """Tasks of 100 steps, one result in 200 a failure, a cancelled task and a refused command every 10,000 results."""
    conn.execute("select tasker.ensure_namespace('default')")
    workers = [
        one(conn, "select tasker.register_worker('w', p_heartbeat_interval => '1 year')") for _ in range(WORKERS)
    ]
    graph = json.dumps({"name": "t", "steps": [{"name": f"s{number}"} for number in range(STEPS)]})
    for batch in range(results // BATCH):
        for _ in range(BATCH // STEPS):
            conn.execute("select tasker.create_task_from_graph(p_graph => %s)", [graph])
        claimed = conn.execute(
            "select workflow_step_uuid, claim_uuid from tasker.claim_steps(%s, null, %s)",
            [workers[batch % WORKERS], BATCH],
        ).fetchall()
        reports = [
            {"step_uuid": str(step), "claim_uuid": str(claim), "execution_time_ms": number}
            | (
                {"success": False, "category": "permanent", "error": {"message": "no"}}
                if number % 200 == 0
                else {"result": number}
            )
            for number, (step, claim) in enumerate(claimed)
        ]
        conn.execute("select count(*) from tasker.complete_steps(%s)", [json.dumps(reports)])
        conn.execute("select * from tasker.orchestrate(null, 1000)")
        if batch % 10 == 0:
            task = one(conn, "select tasker.create_task_from_graph(p_graph => %s)", graph)
            conn.execute("select tasker.cancel_task(%s, 'bench', %s)", [task, f"person {batch % 7}"])
            conn.execute("select tasker.attempt_command('cancel_task', %s, 'bench', 'somebody')", [str(task)])
        if batch % 100 == 99:
            print(f"{(batch + 1) * BATCH:,} results", file=sys.stderr, flush=True)
    conn.execute("vacuum (analyze)")  # as autovacuum does
    return workers


def one(conn: psycopg.Connection[Any], query: LiteralString, *parameters: Any) -> Any:
    """The one value of a query."""
    row = conn.execute(query, parameters or None).fetchone()
    return None if row is None else row[0]


def timed(conn: psycopg.Connection[Any], what: str, query: LiteralString, *parameters: Any, repeat: int = 10) -> None:
    """Run a query and print the shortest of its times."""
    shortest, rows = float("inf"), 0
    for _ in range(repeat):
        began = time.perf_counter()
        rows = len(conn.execute(query, parameters or None).fetchall())
        shortest = min(shortest, time.perf_counter() - began)
    print(f"| {what} | {rows:,} | {shortest * 1000:,.1f} |", flush=True)


def seal(conn: psycopg.Connection[Any]) -> None:
    began, seals, longest = time.perf_counter(), 0, 0.0
    more = True
    while more:
        start = time.perf_counter()
        more = one(conn, "select more from tasker.seal_audit()")
        longest = max(longest, time.perf_counter() - start)
        seals += 1
    took = time.perf_counter() - began
    rows = one(conn, "select max(total_rows) from tasker.audit_seals")
    told = f"{seals:,} seals, the longest {longest:,.1f} s, {rows / took:,.0f} rows a second"
    print(f"| `seal_audit`, {told} | {rows:,} | {took * 1000:,.1f} |")


def ask(conn: psycopg.Connection[Any], workers: list[Any]) -> None:
    first, last = conn.execute(
        "select min(recorded_at), max(recorded_at) from tasker.workflow_step_result_audit"
    ).fetchone() or (datetime.now(), datetime.now())
    middle = first + (last - first) / 2
    whole, hundredth = (first, last), (middle, middle + (last - first) / 100)
    thousandth = (middle, middle + (last - first) / 1000)
    correlation, task = conn.execute(
        "select correlation_id, task_uuid from tasker.tasks where total_steps = 100 order by created_at desc limit 1"
    ).fetchone() or (None, None)
    worker = one(
        conn,
        "select worker_uuid from tasker.workflow_step_result_audit where recorded_at >= %s limit 1",
        middle,
    )
    assert worker in workers
    timed(conn, "`report_interventions`, all", "select * from tasker.report_interventions(%s, %s)", *whole)
    timed(
        conn, "`report_actions_of` a person, all", "select * from tasker.report_actions_of('person 3', %s, %s)", *whole
    )
    timed(conn, "`report_worker`, a thousandth", "select * from tasker.report_worker(%s, %s, %s)", worker, *thousandth)
    least = "00000000-0000-0000-0000-000000000000"
    busiest = one(
        conn, "select worker_uuid from tasker.workflow_step_result_audit group by 1 order by count(*) desc limit 1"
    )
    timed(conn, "`report_worker` of the busiest, a page of 1,000 in the middle",
          "select * from tasker.report_worker(%s, %s, %s, %s, %s, 1000)", busiest, *whole, middle, least)  # fmt: skip
    timed(conn, "`get_audit_by_worker`, newest 100", "select * from tasker.get_audit_by_worker(%s)", worker)
    timed(conn, "`report_correlation`", "select * from tasker.report_correlation(%s)", correlation)
    timed(conn, "`get_audit_by_correlation_id`", "select * from tasker.get_audit_by_correlation_id(%s)", correlation)
    timed(conn, "`get_task_audit_history`", "select * from tasker.get_task_audit_history(%s)", task)
    timed(conn, "`report_failures`, a hundredth", "select * from tasker.report_failures(%s, %s)", *hundredth)
    timed(conn, "`report_retention`, all", "select * from tasker.report_retention(%s, %s)", *whole)
    timed(conn, "`report_completeness`, a thousandth", "select * from tasker.report_completeness(%s, %s)", *thousandth)
    timed(conn, "`report_completeness`, all", "select * from tasker.report_completeness(%s, %s)", *whole)
    timed(conn, "`report_summary`, a thousandth", "select * from tasker.report_summary(%s, %s)", *thousandth)
    timed(conn, "`report_summary`, all", "select * from tasker.report_summary(%s, %s)", *whole)
    timed(conn, "`report_sample` of 25 results of a thousandth",
          "select * from tasker.report_sample('results', %s, %s, 25, 'seed')", *thousandth)  # fmt: skip
    timed(conn, "`report_sample` of 25 results of all",
          "select * from tasker.report_sample('results', %s, %s, 25, 'seed')", *whole)  # fmt: skip
    timed(conn, "`report_sample` of 25 tasks of all",
          "select * from tasker.report_sample('tasks', %s, %s, 25, 'seed')", *whole)  # fmt: skip
    timed(conn, "`report_population` of results, a page of 1,000 in the middle",
          "select * from tasker.report_population('results', %s, %s, %s, %s, 1000)", *whole, middle, least)  # fmt: skip


def main() -> int:
    results = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with (
        server.running() as running,
        running.database() as database,
        psycopg.connect(database.dsn, autocommit=True) as conn,
    ):
        migrate.upgrade(database.dsn)
        workers = make(conn, results)
        print("| what | rows | ms |\n|---|---:|---:|")
        seal(conn)
        timed(conn, "`seal_audit` without news", "select * from tasker.seal_audit()")
        timed(conn, "`verify_audit`, all (rows: findings)", "select * from tasker.verify_audit()", repeat=1)
        timed(conn, "`verify_digest` (rows: findings)", "select * from tasker.verify_digest(tasker.audit_digest())")
        ask(conn, workers)
        conn.execute("select tasker.set_retention_policy('bench', '1 day', '1 day', 'bench')")
        conn.execute(
            "update tasker.tasks set created_at = created_at - interval '1 year', "
            " started_at = started_at - interval '1 year',"
            " completed_at = completed_at - interval '1 year' where completed_at is not null"
        )
        timed(
            conn,
            "`archive_tasks`, 100 tasks of 100 steps",
            "select * from tasker.archive_tasks('bench', 'bench', 100)",
            repeat=1,
        )
        timed(conn, "`purge_archive` of them", "select * from tasker.purge_archive('bench', 'bench', 100)", repeat=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
