"""Objects of the caller's in place of ours: tables, functions, operators, types, whatever the search path says."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from tests.access.tenants import ATTEMPTS, Attempt, World, bound_login, build
from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.kernel.engine import Engine, refused

BOOBY = "begin raise exception 'hijacked' using errcode = 'XX001'; end"


@pytest.fixture(scope="module")
def hijacked(server: TestServer) -> Iterator[World]:
    """A session with a twin of every table in pg_temp and of every function and many operators in public, which come first."""
    with fresh_database(server, TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as root_conn:
        root = Engine(root_conn)
        name = f"acme_{uuid4().hex[:12]}"
        acme_dsn = bound_login(root, dsn, name, "acme")
        try:
            with psycopg.connect(acme_dsn, autocommit=True) as conn:
                world = build(root, acme_dsn, conn)
                for schema in ("tasker", "pgmq"):
                    for table in root.values(
                        "select c.relname from pg_class c where c.relnamespace = %s::regnamespace and c.relkind in ('r', 'v')",
                        schema,
                    ):
                        columns = root.values(
                            "select quote_ident(attname) from pg_attribute where attrelid = format('%%I.%%I', %s::text, %s::text)::regclass"
                            " and attnum > 0 and not attisdropped",
                            schema, table,
                        )  # fmt: skip
                        root.run(f"create temp table {table} ({', '.join(f'{column} text' for column in columns)})")
                twins = root.values(
                    "select format('create function public.%%I(%%s) returns %%s language plpgsql as %%L', p.proname,"
                    " pg_get_function_identity_arguments(p.oid), case when p.proretset then 'setof text' else 'text' end, %s::text)"
                    " from pg_proc p where p.pronamespace = 'tasker'::regnamespace and p.prorettype <> 'trigger'::regtype"
                    " and not '-1' = any (string_to_array(coalesce(array_to_string(p.proargmodes, ','), ''), ','))"
                    " and p.proargmodes is null",
                    BOOBY,
                )
                assert len(twins) > 150
                for twin in twins:
                    root.run(twin)
                for signature in (
                    "now()", "clock_timestamp()", "statement_timestamp()", "sha256(bytea)", "convert_to(text, name)", "pg_notify(text, text)",
                    "jsonb_typeof(jsonb)", "jsonb_array_length(jsonb)", "jsonb_set(jsonb, text[], jsonb, boolean)", "to_jsonb(anyelement)",
                    "array_length(anyarray, int)", "cardinality(anyarray)", "pg_has_role(name, name, text)", "quote_ident(text)",
                    "format(text, text)", "to_regclass(text)", "length(text)", "pg_current_snapshot()", "pg_current_xact_id()",
                ):  # fmt: skip
                    root.run(f"create function public.{signature} returns text language plpgsql as $${BOOBY}$$")
                root.run(f"create function public.same(uuid, uuid) returns boolean language plpgsql as $${BOOBY}$$")
                root.run(f"create function public.part(jsonb, text) returns text language plpgsql as $${BOOBY}$$")
                root.run(f"create function public.less(xid8, xid8) returns boolean language plpgsql as $${BOOBY}$$")
                root.run(
                    f"create function public.later(timestamptz, interval) returns timestamptz language plpgsql as $${BOOBY}$$"
                )
                root.run("create operator public.= (leftarg = uuid, rightarg = uuid, function = public.same)")
                root.run("create operator public.->> (leftarg = jsonb, rightarg = text, function = public.part)")
                root.run("create operator public.? (leftarg = jsonb, rightarg = text, function = public.part)")
                root.run("create operator public.< (leftarg = xid8, rightarg = xid8, function = public.less)")
                root.run(
                    "create operator public.+ (leftarg = timestamptz, rightarg = interval, function = public.later)"
                )
                root.run("create domain public.uuid as text check (value = 'hijacked')")
                root.run("create domain public.jsonb as text check (value = 'hijacked')")
                root.run("create view pg_temp.pg_proc as select 1 as oid")
                root.run(
                    "create view pg_temp.pg_roles as select 'nobody'::name as rolname, true as rolsuper, true as rolbypassrls"
                )
                yield world
        finally:
            root.run("reset search_path")
            root.run(f"drop owned by {name}")
            root.run(f"drop role {name}")


@pytest.mark.parametrize(
    "attempt",
    [pytest.param(tried[0], id=name) for name, tried in ATTEMPTS.items()],
)
@pytest.mark.parametrize("path", ["pg_temp, public, pg_catalog", "public, pg_catalog, pg_temp, tasker"])
def test_no_function_finds_what_the_caller_put_there(hijacked: World, attempt: Attempt, path: str) -> None:
    """Every public function with something to do: it does what it does without them, and leaves nothing in them."""
    root, keys = hijacked.root, hijacked.keys
    twins = root.values(
        "select c.relname from pg_class c where c.relnamespace = pg_my_temp_schema() and c.relkind = 'r'"
    )
    assert len(twins) > 60
    # the statement itself is the caller's: its own operators and types are as it wants them
    statement = attempt.statement
    outer = any(word in statement for word in ("||", "::", "jsonb_build", "<>"))
    with root.conn.transaction(force_rollback=True):
        if not outer:
            root.run(f"set local search_path = {path}")
            root.conn.execute(statement.encode(), keys)
        else:
            made = root.conn.execute(statement.encode(), keys)
            assert made.description
        root.run("set local search_path = pg_catalog")
        counted = " union all ".join(f"select '{twin}' as twin from pg_temp.{twin}" for twin in twins)
        assert root.rows(counted) == []


def test_the_traps_work(hijacked: World) -> None:
    """What is not pinned falls into them."""
    root = hijacked.root
    with root.conn.transaction(force_rollback=True):
        root.run("set local search_path = pg_temp, public, pg_catalog")
        with pytest.raises(psycopg.errors.DataCorrupted, match="hijacked"), root.conn.transaction():
            root.run("select clock_timestamp()")
        with pytest.raises(psycopg.errors.DataCorrupted, match="hijacked"), root.conn.transaction():
            root.run("select from pg_catalog.pg_class where gen_random_uuid() = gen_random_uuid()")
        assert root.rows("select from tasks") == []


def test_a_login_makes_nothing_where_our_names_are_looked_up(hijacked: World) -> None:
    for statement in (
        "create table tasker.mine (x int)",
        "create function tasker.now() returns int language sql return 1",
        "create function pg_catalog.mine() returns int language sql return 1",
        "create operator tasker.= (leftarg = uuid, rightarg = uuid, function = uuid_eq)",
        "create trigger mine before insert on tasker.tasks for each row execute function suppress_redundant_updates_trigger()",
        "create rule mine as on insert to tasker.tasks do instead nothing",
        "create policy mine on tasker.tasks using (true)",
        "alter table tasker.tasks disable trigger all",
        "alter function tasker.tick(int) set search_path = public",
        "alter function tasker.tick(int) security invoker",
        "comment on table tasker.tasks is 'mine'",
        "create or replace view tasker.task_overview as select 1 as x",
        "set session_replication_role = replica",
        "do $$ begin lock table tasker.tasks in access exclusive mode; end $$",
        "create statistics tasker.mine on namespace, name from tasker.tasks",
        "create index mine on tasker.tasks (name)",
        "grant select on tasker.sensitive_values to public",
        "grant tasker_owner to tasker_client",
        "set role tasker_owner",
        "set session authorization postgres",
        "alter default privileges for role tasker_owner grant all on tables to public",
        "select pgmq.purge_queue('worker_rival_queue')",
        "select * from pgmq.q_worker_rival_queue",
    ):
        with refused("42501", "0LP01"):
            hijacked.acme.run(statement)
