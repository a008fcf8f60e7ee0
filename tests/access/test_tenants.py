"""A login bound to namespaces sees and moves what stands in them, and nothing else, whatever it calls."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import psycopg
import pytest

from pgtasker import Client, StepContext, TransientError, Worker
from tests.access.tenants import (
    ATTEMPTS,
    MARK,
    NOT_TRIED,
    SHARED_RELATIONS,
    Attempt,
    World,
    bound_login,
    build,
)
from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.kernel.engine import DIAMOND, Engine, chain, refused


@pytest.fixture(scope="module")
def world(server: TestServer) -> Iterator[World]:
    with fresh_database(server, TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as root_conn:
        root = Engine(root_conn)
        name = f"acme_{uuid4().hex[:12]}"
        acme_dsn = bound_login(root, dsn, name, "acme")
        try:
            with psycopg.connect(acme_dsn, autocommit=True) as conn:
                yield build(root, acme_dsn, conn)
        finally:
            root.run(f"drop owned by {name}")
            root.run(f"drop role {name}")


def test_every_function_is_tried_across_tenants_or_says_why_not(world: World) -> None:
    public = world.root.values(
        "select distinct p.proname from pg_proc p where p.pronamespace = 'tasker'::regnamespace"
        " and exists (select from aclexplode(p.proacl) a where a.grantee <> p.proowner)"
    )
    assert set(public) - set(ATTEMPTS) - set(NOT_TRIED) == set(), "try it in tests/access/tenants.py"
    assert set(ATTEMPTS) | set(NOT_TRIED) <= set(public), "the lists are out of date"
    assert set(ATTEMPTS) & set(NOT_TRIED) == set()


@pytest.mark.parametrize(
    "attempt", [pytest.param(attempt, id=f"{name}-{place}") for name, tried in ATTEMPTS.items() for place, attempt in enumerate(tried)]
)  # fmt: skip
def test_a_bound_login_does_not_reach_what_is_anothers(world: World, attempt: Attempt) -> None:
    foreign = world.foreign()
    before = world.fingerprint()
    said = ""
    if attempt.codes:
        with refused(*attempt.codes) as refusal:
            world.acme.conn.execute(attempt.statement.encode(), world.keys)
        said = f"{refusal.message} {refusal.detail} {refusal.hint}"
        given = {str(key) for key in world.keys.values()}
        assert not [key for key in foreign - given if key in said]
    else:
        rows = world.acme.conn.execute(attempt.statement.encode(), world.keys).fetchall()
        assert [row if len(row) > 1 else row[0] for row in rows] == attempt.answer
    after = world.fingerprint()
    assert {table for table in before if before[table] != after[table]} == attempt.writes

    # not because there is nothing to reach: whoever is not bound gets there
    with world.root.conn.transaction(force_rollback=True):
        try:
            with world.root.conn.transaction():
                rows = world.root.conn.execute(attempt.statement.encode(), world.keys).fetchall()
                assert attempt.codes or [row if len(row) > 1 else row[0] for row in rows] != attempt.answer
        except psycopg.Error as error:
            raise AssertionError(f"nobody gets there: {error.sqlstate} {error}") from error


def test_a_bound_login_reads_nothing_that_is_anothers(world: World) -> None:
    """Every table and view that anybody may read, whole."""
    relations = world.root.rows(
        "select c.relname, c.relkind = 'v' as is_view, c.relrowsecurity as secured, c.reloptions from pg_class c"
        " where c.relnamespace = 'tasker'::regnamespace and c.relkind in ('r', 'v', 'p')"
        " and exists (select from unnest(%s::text[]) as r(role) where has_any_column_privilege(r.role, c.oid, 'select'))",
        ["tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor"],
    )
    foreign = world.foreign()
    empty = set()
    for relation in relations:
        name = relation["relname"]
        if relation["is_view"]:
            assert relation["reloptions"] == ["security_invoker=true"], name
        elif name not in SHARED_RELATIONS:
            assert relation["secured"], (
                f"{name} needs a policy in sql/tenants/policies.sql, or stands in SHARED_RELATIONS"
            )
        if name in SHARED_RELATIONS:
            continue
        seen = {str(row) for row in world.acme.rows(f"select t::text from tasker.{name} t")}
        everything = {str(row) for row in world.root.rows(f"select t::text from tasker.{name} t")}
        # numbers over all are smaller, rows are fewer
        assert seen < everything or not seen & everything, name
        assert not [key for key in foreign if any(key in row for row in seen)], name
        assert not [row for row in seen if "rival" in row], name
        if not seen:
            empty.add(name)
    assert {"tasks", "task_overview", "timeline", "workers", "task_transitions"} & empty == set()


def test_no_function_of_the_callers_looks_at_rows_before_the_policy_does(world: World) -> None:
    """A condition that costs nothing and tells everything it sees."""
    world.acme.run(
        "create or replace function pg_temp.tell(text) returns boolean language plpgsql cost 0.000001 as"
        " $$ begin raise notice '%', $1; return true; end $$"
    )
    told: list[str] = []
    world.acme.conn.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    for relation in ("tasks", "task_overview", "step_overview", "timeline", "workflow_steps", "step_checkpoints"):
        world.acme.rows(f"select from tasker.{relation} t where pg_temp.tell(t::text)")
    assert told
    assert not [text for text in told if MARK in text or "rival" in text]


def test_set_role_changes_nothing(world: World) -> None:
    for role in ("tasker_operator", "tasker_auditor", "tasker_client"):
        with world.acme.conn.transaction(force_rollback=True):
            world.acme.run(f"set local role {role}")
            assert {row["namespace"] for row in world.acme.rows("select namespace from tasker.task_overview")} == {
                "acme"
            }
            assert world.acme.one("select tasker.bound_namespaces()") == ["acme"]


def test_a_bound_login_gets_its_own_work_done(engine: Engine, database: str) -> None:
    """The whole way, with two tenants at work: each finishes its own, and neither touches the other's."""
    names = [f"{tenant}_{uuid4().hex[:8]}" for tenant in ("one", "two")]
    try:
        tenants = {}
        for name in names:
            dsn = bound_login(engine, database, name, name)
            tenants[name] = Engine(psycopg.connect(dsn, autocommit=True), name)
        tasks = {name: tenant.task(DIAMOND) for name, tenant in tenants.items()}
        workers = {name: tenant.worker() for name, tenant in tenants.items()}
        first, second = (tenants[name] for name in names)
        for tenant, name in ((first, names[0]), (second, names[1])):
            (top,) = tenant.claim(workers[name])
            tenant.complete(top, {"of": name})
        first.orchestrate()
        assert engine.states(tasks[names[0]])["top"] == "complete"
        assert engine.states(tasks[names[1]])["top"] == "enqueued_for_orchestration"
        second.orchestrate()
        for name, tenant in tenants.items():
            (left, right) = tenant.claim(workers[name])
            assert left["inputs"] == {"top": {"of": name}}
            tenant.fail(left, "transient", "0 seconds")
            tenant.complete(right)
            tenant.orchestrate()
        engine.shift_clock("1 minute")
        assert first.tick()["timers_fired"] >= 1
        assert engine.states(tasks[names[0]])["left"] == "enqueued"
        assert engine.states(tasks[names[1]])["left"] == "waiting_for_retry"
        second.tick()
        for name, tenant in tenants.items():
            tenant.finish(workers[name])
            assert tenant.one("select state from tasker.task_status(%s)", tasks[name]) == "complete"
            assert {change["namespace"] for change in tenant.values("select change from tasker.changes_after()")
                    if change["log"] != "worker"} == {name}  # fmt: skip
            assert len(tenant.rows("select * from tasker.get_task_audit_history(%s)", tasks[name])) == 5
            tenant.assert_consistent()
        # a feed is read in pages, and none of the own is lost between those of others
        cursor, paged = None, []
        while page := first.rows("select * from tasker.changes_after(%s, 3)", cursor):
            cursor = page[-1]["cursor"]
            paged += [row["change"] for row in page]
        assert paged == first.values("select change from tasker.changes_after()")
    finally:
        for tenant in tenants.values():
            tenant.conn.close()
        for name in names:
            engine.run(f"drop owned by {name}")
            engine.run(f"drop role {name}")


def test_python_workers_of_two_tenants_at_work(engine: Engine, database: str) -> None:
    """The client and the worker as they come, each with a login that is bound and in one role."""
    names = [f"{role}_{tenant}_{uuid4().hex[:8]}" for tenant in ("one", "two") for role in ("client", "worker")]
    tasks: dict[str, UUID] = {}
    try:
        dsns = {
            name: bound_login(engine, database, name, name.split("_")[1], roles=(f"tasker_{name.split('_')[0]}",))
            for name in names
        }
        for name in names:
            role, tenant, _ = name.split("_")
            if role == "client":
                with Client(dsns[name]) as client:
                    task = client.create_task_from_graph(
                        {
                            "name": "x",
                            "steps": [
                                {"name": "a", "max_attempts": 2, "retry": {"base_delay": 0.1}},
                                {"name": "b", "depends_on": ["a"]},
                            ],
                        },
                        namespace=tenant,
                    )
                    tasks[tenant] = task
        for name in names:
            role, tenant, _ = name.split("_")
            if role == "worker":
                worker = Worker(dsns[name], name=tenant)

                @worker.step("a")
                def a(ctx: StepContext, tenant: str = tenant) -> str:
                    if ctx.attempt == 1:
                        raise TransientError("again")
                    return tenant

                worker.step("b")(lambda ctx: ctx.inputs["a"])
                worker.run_until(tasks[tenant], timeout=60)
                # the other one's work is not touched by it
                others = [task for other, task in tasks.items() if other > tenant]
                assert all(engine.states(task)["a"] == "enqueued" for task in others)
        for tenant, task in tasks.items():
            step = engine.row(
                "select state, result from tasker.step_overview where task_uuid = %s and name = 'b'", task
            )
            assert step == {"state": "complete", "result": tenant}
        engine.assert_consistent()
    finally:
        for name in names:
            engine.run(f"drop owned by {name}")
            engine.run(f"drop role {name}")


def test_children_elsewhere_are_left_alone(engine: Engine, world_login: Engine) -> None:
    parent = engine.task(chain("work"), namespace="acme")
    child = engine.one(
        """select tasker.create_task_from_graph('{"name": "x", "steps": [{"name": "a"}]}', p_namespace => 'rival',
           p_parent_task_uuid => %s)""",
        parent,
    )
    own = engine.one(
        """select tasker.create_task_from_graph('{"name": "x", "steps": [{"name": "a"}]}', p_namespace => 'acme',
           p_parent_task_uuid => %s)""",
        parent,
    )
    world_login.command("cancel_task", parent)
    assert [engine.state(task) for task in (parent, own, child)] == ["cancelled", "cancelled", "steps_in_process"]


def test_a_child_of_a_foreign_parent_is_resumed_by_its_own_tenant(engine: Engine, world_login: Engine) -> None:
    """The new task stands where the old one stood; nothing of the parent is told."""
    graph = '{"name": "t", "steps": [{"name": "only"}]}'
    parent = engine.task(chain("work"), namespace="foreign")
    child = engine.one(
        "select tasker.create_task_from_graph(%s, p_namespace => 'acme', p_parent_task_uuid => %s)", graph, parent
    )
    world_login.command("cancel_task", child)
    resumed = world_login.one("select tasker.resume_task(%s, 'test', 'somebody')", child)
    assert engine.one("select parent_task_uuid from tasker.tasks where task_uuid = %s", resumed) == parent
    assert world_login.one("select count(*) from tasker.task_overview") == 2
    with refused("TK404"):
        world_login.one(
            "select tasker.create_task_from_graph(%s, p_namespace => 'acme', p_parent_task_uuid => %s)", graph, parent
        )
    engine.command("cancel_task", parent)
    assert engine.state(resumed) == "cancelled"


@pytest.fixture
def world_login(engine: Engine, database: str) -> Iterator[Engine]:
    """A login of all roles, bound to acme."""
    name = f"acme_{uuid4().hex[:12]}"
    try:
        with psycopg.connect(bound_login(engine, database, name, "acme"), autocommit=True) as conn:
            yield Engine(conn, "acme")
    finally:
        engine.run(f"drop owned by {name}")
        engine.run(f"drop role {name}")


# -- binding


def test_binding_is_on_record_and_holds_from_the_next_call_on(engine: Engine, world_login: Engine) -> None:
    name = world_login.conn.info.user
    rival = engine.task(chain("work"), namespace="rival")
    with refused("TK404"):
        world_login.rows("select * from tasker.task_status(%s)", rival)
    engine.one("select tasker.bind_login(%s, '{acme,rival}', 'helps out', 'ada')", name)
    assert world_login.one("select state from tasker.task_status(%s)", rival) == "steps_in_process"
    engine.one("select tasker.bind_login(%s, '{}', 'on leave', 'ada')", name)
    assert world_login.rows("select * from tasker.task_overview") == []
    engine.one("select tasker.unbind_login(%s, 'left the team', 'ada')", name)
    assert world_login.one("select count(*) from tasker.task_overview") == 1
    rows = engine.rows("select * from tasker.login_binding_changes order by login_binding_change_uuid")
    assert [(row["action"], row["previous_namespaces"], row["namespaces"], row["reason"]) for row in rows] == [
        ("bind", None, ["acme"], "test"),
        ("bind", ["acme"], ["acme", "rival"], "helps out"),
        ("bind", ["acme", "rival"], [], "on leave"),
        ("unbind", [], None, "left the team"),
    ]
    assert {row["login"] for row in rows} == {name}
    assert {row["done_by"] for row in rows} == {engine.conn.info.user}
    for statement in ("update tasker.login_binding_changes set reason = 'x'", "delete from tasker.login_binding_changes",
                      "truncate tasker.login_binding_changes"):  # fmt: skip
        with refused("TK409"):
            engine.run(statement)


def test_public_holds_whoever_is_not_bound_by_name(engine: Engine, database: str, login: object) -> None:
    dsn = login("tasker_client")  # type: ignore[operator]
    task = engine.task(chain("work"))
    engine.one("select tasker.bind_login('public', '{}', 'nobody by accident', 'ada')")
    with psycopg.connect(dsn, autocommit=True) as conn:
        someone = Engine(conn)
        assert someone.rows("select * from tasker.task_overview") == []
        with refused("TK403"):
            someone.task(chain("work"))
        engine.one("select tasker.bind_login(%s, null, 'serves all', 'ada')", conn.info.user)
        assert someone.state(task) == "steps_in_process"
    # who installs and mends is not locked out
    assert engine.state(task) == "steps_in_process"
    engine.task(chain("work"))


def test_a_binding_that_would_not_hold_is_refused(engine: Engine, login: object) -> None:
    for wrong, code in (
        ("('postgres', '{acme}', 'test', 'ada')", "TK422"),
        ("('nobody-there', '{acme}', 'test', 'ada')", "TK404"),
        ("('public', '{\"not a name\"}', 'test', 'ada')", "TK400"),
        ("('public', '{null}', 'test', 'ada')", "TK400"),
        ("('public', '{acme}', '', 'ada')", "TK400"),
    ):
        with refused(code):
            engine.one(f"select tasker.bind_login{wrong}")
    with refused("TK404"):
        engine.one("select tasker.unbind_login('public', 'test', 'ada')")
    owner = psycopg.conninfo.conninfo_to_dict(login("tasker_owner"))["user"]  # type: ignore[operator]
    with refused("TK422"):
        engine.one("select tasker.bind_login(%s, '{acme}', 'test', 'ada')", owner)
    assert engine.one("select count(*) from tasker.login_binding_changes") == 0


def test_nobody_binds_but_the_owner(engine: Engine, world_login: Engine) -> None:
    for statement in (
        "select tasker.bind_login(session_user::text, null, 'test', 'me')",
        "select tasker.unbind_login(session_user::text, 'test', 'me')",
        "delete from tasker.login_bindings",
        "update tasker.login_bindings set namespaces = null",
        "insert into tasker.login_bindings (login) values ('x')",
    ):
        with refused("42501"):
            world_login.run(statement)
    assert world_login.values("select login from tasker.login_bindings") == [world_login.conn.info.user]
