"""A call that is cut off in the middle leaves nothing, and works when it is made again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from tests.access.tenants import ATTEMPTS, World, bound_login, build
from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.kernel.engine import Engine


@pytest.fixture(scope="module")
def world(server: TestServer) -> Iterator[World]:
    """The world of the tenants, in which every write can be made the last: the n-th one of a call fails as if cancelled."""
    with fresh_database(server, TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as root_conn:
        root = Engine(root_conn)
        name = f"acme_{uuid4().hex[:12]}"
        try:
            acme_dsn = bound_login(root, dsn, name, "acme")
            with psycopg.connect(acme_dsn, autocommit=True) as conn:
                world = build(root, acme_dsn, conn)
                root.run(
                    """
                    create function public.interrupt() returns trigger language plpgsql as $$
                    declare v_left int := nullif(current_setting('test.writes', true), '')::int;
                    begin
                      if v_left is not null then
                        perform set_config('test.writes', (v_left - 1)::text, true);
                        if v_left = 0 then
                          perform pg_sleep(coalesce(nullif(current_setting('test.sleep', true), ''), '0')::float8);
                          raise exception 'cut off here' using errcode = 'query_canceled';
                        end if;
                      end if;
                      return null;
                    end $$
                    """
                )
                for table in root.values(
                    "select oid::regclass::text from pg_class where relkind = 'r'"
                    " and relnamespace in ('tasker'::regnamespace, 'pgmq'::regnamespace)"
                ):
                    root.run(
                        f"create trigger zz_interrupt after insert or update or delete on {table}"
                        " for each statement execute function public.interrupt()"
                    )
                yield world
        finally:
            root.run(f"drop owned by {name}")
            root.run(f"drop role {name}")


def play(world: World, statement: str, writes: int, before: dict[str, str]) -> bool:
    """Make the call, cut off after so many writes; whether it came to its end. Nothing of it is kept."""
    root = world.root
    with root.conn.transaction(force_rollback=True):
        try:
            with root.conn.transaction():
                root.run(f"set local test.writes = '{writes}'")
                root.conn.execute(statement.encode(), world.keys)
            return True
        except psycopg.errors.QueryCanceled:
            root.run("set local test.writes = ''")
            assert world.fingerprint() == before
            return False


WRITERS = {
    name: tried[0].statement
    for name, tried in ATTEMPTS.items()
    # they read, or refuse
    if not name.startswith(("get_", "metrics_", "verify_", "audit_digest", "export_", "load_"))
    and (not name.startswith("report_") or name == "report_validation")
    and name not in {
        "task_status", "task_state", "step_state", "explain_task", "allowed_events", "worker_state", "may_see_worker", "held_claims", "is_drained",
        "find_tasks", "count_tasks", "task_revision", "step_spans", "recent_throughput", "allowed_commands", "check_consistency", "find_stuck", "changes_after", "breaker_state", "attached_state",
        "diagnose", "diagnose_work", "refuse_bound_login",
    }
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_cut_off_after_any_write_nothing_stays(world: World, name: str) -> None:
    statement, before = WRITERS[name], world.fingerprint()
    writes = 0
    while not play(world, statement, writes, before):
        writes += 1
        assert writes < 200
    # a call that is tried here writes; those that answer without a write stand in the list
    assert writes > 0 or name in {
        "breaker_allows",
        "breaker_permit",
        "extend_leases",
        "ensure_namespace",
        "purge_archive",
        "purge_expired",
    }, name


@pytest.mark.parametrize(
    "name", ["create_task_from_graph", "claim_steps", "complete_step", "orchestrate", "tick", "cancel_task"]
)
def test_a_statement_timeout_in_the_middle(world: World, name: str) -> None:
    """The real thing: the server's own timer ends the call while it is inside."""
    root = world.root
    statement = {
        "create_task_from_graph": """select tasker.create_task_from_graph('{"name": "x", "steps": [{"name": "a"}]}', p_namespace => 'rival')""",
        "claim_steps": "select * from tasker.claim_steps(%(worker)s)",
    }.get(name, WRITERS[name])
    before = world.fingerprint()
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"), root.conn.transaction():
        root.run("set local test.writes = '1'")
        root.run("set local test.sleep = '30'")
        root.run("set local statement_timeout = '300ms'")
        began = time.monotonic()
        root.conn.execute(statement.encode(), world.keys)
    assert time.monotonic() - began < 20
    assert world.fingerprint() == before
    with root.conn.transaction(force_rollback=True):
        root.conn.execute(statement.encode(), world.keys)
