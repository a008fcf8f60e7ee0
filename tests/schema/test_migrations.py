"""Installing and upgrading: online, by plain psql, over an existing pgmq, by roles that may and may not, at once."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgtasker import __version__, migrate

if TYPE_CHECKING:
    from tests.conftest import TestServer

HEAD = max(path.stem for path in (migrate.MIGRATIONS / "versions").glob("0*.py"))
NewDatabase = Callable[[], str]


def dump(server: TestServer, dsn: str, *options: str) -> list[str]:
    """Return the schema of a database as pg_dump prints it, without its random session key."""
    text = subprocess.run(
        [server.server.program("pg_dump"), "--schema-only", *options, dsn], check=True, capture_output=True, text=True
    ).stdout
    return re.sub(r"^\\(un)?restrict .*\n", "", text, flags=re.MULTILINE).splitlines()


def difference(one: list[str], other: list[str]) -> str:
    return "\n".join(difflib.unified_diff(one, other, lineterm="", n=2))


def psql(server: TestServer, dsn: str, script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [
        server.server.program("psql"),
        "-X",
        "-q",
        *options,
        "-v",
        "ON_ERROR_STOP=1",
        "-f",
        script,
        dsn,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def query(dsn: str, text: str, *arguments: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(text.encode(), arguments or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def sql_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sql/ tree that a test may change, applied instead of the real one."""
    copy = tmp_path / "sql"
    shutil.copytree(migrate.SQL_TREE, copy)
    monkeypatch.setattr(migrate, "SQL_TREE", copy)
    return copy


# -- the same schema on every way ------------------------------------------------------------------------------------


def test_psql_with_the_offline_script_gives_the_same_schema(
    server: TestServer, database: str, empty_database: str, tmp_path: Path
) -> None:
    script = tmp_path / "install.sql"
    script.write_text(migrate.offline_sql())
    outcome = psql(server, empty_database, script, "-1")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr == ""
    assert difference(dump(server, database), dump(server, empty_database)) == ""
    assert migrate.schema_info(database) == migrate.schema_info(empty_database)
    # What psql installed is at head for the online way too.
    assert migrate.upgrade(empty_database) == migrate.Upgrade(HEAD, HEAD, tree_applied=False)


def test_the_dump_sees_a_difference(server: TestServer, database: str, empty_database: str) -> None:
    migrate.upgrade(empty_database)
    query(empty_database, "create index on tasker.schema_info (updated_at)")
    assert "schema_info_updated_at_idx" in difference(dump(server, database), dump(server, empty_database))


def test_the_offline_script_refuses_to_run_without_a_transaction(
    bare_server: TestServer, empty_database: str, tmp_path: Path
) -> None:
    script = tmp_path / "install.sql"
    script.write_text(migrate.offline_sql())
    outcome = psql(bare_server, empty_database, script)
    assert outcome.returncode == 3
    assert "psql -1" in outcome.stderr
    assert query(empty_database, "select from pg_namespace where nspname in ('tasker', 'pgmq')") == []


def test_the_offline_script_is_the_same_every_time() -> None:
    assert migrate.offline_sql() == migrate.offline_sql()


def test_applying_the_tree_again_changes_nothing(server: TestServer, database: str) -> None:
    before = dump(server, database)
    with psycopg.connect(database) as connection:
        connection.execute("set search_path = public")
        migrate.apply_sql_tree(connection)
        assert connection.execute("select current_setting('search_path'), current_user").fetchone() == (
            "public",
            "postgres",
        )
    assert difference(before, dump(server, database)) == ""


def test_a_second_upgrade_does_nothing(database: str) -> None:
    before = query(database, "select key, value, updated_at from tasker.schema_info order by key")
    assert migrate.upgrade(database) == migrate.Upgrade(HEAD, HEAD, tree_applied=False)
    assert query(database, "select key, value, updated_at from tasker.schema_info order by key") == before


def test_stepwise_is_the_same_as_at_once(server: TestServer, database: str, empty_database: str) -> None:
    revisions = sorted(path.stem for path in (migrate.MIGRATIONS / "versions").glob("0*.py"))
    assert revisions[-1] == HEAD
    for revision in revisions[:-1]:
        assert migrate.upgrade(empty_database, revision).after == revision
    assert migrate.upgrade(empty_database) == migrate.Upgrade(revisions[-2], HEAD, tree_applied=True)
    assert difference(dump(server, database), dump(server, empty_database)) == ""
    info = migrate.schema_info(empty_database)
    assert (info["pgmq_source"], info["pgmq_version"]) == ("bundled", "1.13.0")


def test_a_function_that_came_to_answer_otherwise_is_made_anew(empty_database: str) -> None:
    """metrics_queues got a column; a database that has the older one is upgraded like any other."""
    migrate.upgrade(empty_database, "0021_claimants")
    with psycopg.connect(empty_database, autocommit=True) as conn:
        conn.execute(
            "create function tasker.metrics_queues(out namespace text, out depth bigint) returns setof record"
            " language sql begin atomic select 'x'::text, 1::bigint; end"
        )
        conn.execute("create view tasker.metrics_queues as select * from tasker.metrics_queues()")
    migrate.upgrade(empty_database)
    assert query(empty_database, "select queue_name, priority from tasker.metrics_queues") == [
        ("orchestration_step_results", 0)
    ]


def test_every_version_file_has_its_frozen_sql() -> None:
    versions = {path.stem for path in (migrate.MIGRATIONS / "versions").glob("0*.py")}
    assert versions == {path.stem for path in (migrate.MIGRATIONS / "sql").glob("*.sql")}
    assert all(len(revision) <= 32 for revision in versions)


# -- what is written down --------------------------------------------------------------------------------------------


def test_what_is_installed_is_written_down(database: str) -> None:
    info = migrate.schema_info(database)
    assert info["sql_tree_checksum"] == migrate.sql_tree_checksum()
    assert re.fullmatch("[0-9a-f]{64}", info["sql_tree_checksum"])
    assert info["schema_version"] == __version__
    assert info["pgmq_source"] == "bundled"
    assert info["pgmq_version"] == "1.13.0"
    assert migrate.current(database) == HEAD


def test_the_checksum_follows_names_order_and_contents(sql_tree: Path) -> None:
    seen = {migrate.sql_tree_checksum()}
    file = sql_tree / "kernel" / "raise_error.sql"
    file.write_text(file.read_text() + "-- changed\n")
    seen.add(migrate.sql_tree_checksum())
    file.rename(file.with_name("raise_errors.sql"))
    seen.add(migrate.sql_tree_checksum())
    order = sql_tree / "order.txt"
    order.write_text("\n".join(reversed(order.read_text().splitlines())) + "\n")
    seen.add(migrate.sql_tree_checksum())
    assert len(seen) == 4


def test_a_database_without_pgtasker_has_no_revision(empty_database: str) -> None:
    assert migrate.current(empty_database) is None
    assert migrate.schema_info(empty_database) == {}


# -- a tree that changes ---------------------------------------------------------------------------------------------


def test_what_left_the_tree_leaves_the_database_and_nothing_else_does(database: str, sql_tree: Path) -> None:
    extra = sql_tree / "observe" / "zz_extra.sql"
    extra.write_text(
        """
        create or replace function tasker.extra(p_x int) returns int language sql return p_x;
        create or replace view tasker.extra_view as select tasker.extra(1) as x;
        create or replace function tasker.extra_trigger() returns trigger language plpgsql
        set search_path = pg_catalog, pg_temp as $$ begin return new; end $$;
        create or replace trigger extra before insert on tasker.schema_info
        for each row execute function tasker.extra_trigger();
        """
    )
    assert migrate.upgrade(database).tree_applied
    query(database, "create function tasker.somebody_elses() returns int language sql return 1")
    query(database, "grant execute on all functions in schema tasker to pg_monitor")
    # Another signature is another function: the old one must go, or calls become ambiguous.
    extra.write_text(
        "create or replace function tasker.extra(p_x int, p_y int = 1) returns int language sql return p_x;"
    )
    assert migrate.upgrade(database).tree_applied
    left = query(
        database,
        """
        select oid::regprocedure::text from pg_proc
        where pronamespace = 'tasker'::regnamespace
            and (proname like 'extra%' or proname in ('somebody_elses', 'uuid_generate_v7'))
        union all
        select relname from pg_class where relname like 'extra%'
        union all
        select tgname from pg_trigger where tgname = 'extra'
        order by 1
        """,
    )
    assert left == [("tasker.extra(integer,integer)",), ("tasker.somebody_elses()",), ("tasker.uuid_generate_v7()",)]


def test_nothing_is_dropped_that_something_else_needs(database: str, sql_tree: Path) -> None:
    extra = sql_tree / "observe" / "zz_extra.sql"
    extra.write_text("create or replace function tasker.extra() returns int language sql return 1;")
    migrate.upgrade(database)
    query(database, "create view public.mine as select tasker.extra() as x")
    extra.unlink()
    with pytest.raises(migrate.MigrationError, match=r"routine tasker\.extra\(\).*(?s:.*)view public\.mine"):
        migrate.upgrade(database)
    assert query(database, "select x from public.mine") == [(1,)]
    query(database, "drop view public.mine")
    assert migrate.upgrade(database).tree_applied


def test_an_error_names_file_and_line_and_changes_nothing(server: TestServer, database: str, sql_tree: Path) -> None:
    before = dump(server, database)
    file = sql_tree / "observe" / "zz_extra.sql"
    file.write_text("create function tasker.extra() returns int language sql return 1;\n\nselect nonsense;\n")
    with pytest.raises(migrate.MigrationError, match=r'^sql/observe/zz_extra\.sql:3: column "nonsense" does not exist'):
        migrate.upgrade(database)
    assert difference(before, dump(server, database)) == ""


def test_percent_signs_and_colons_arrive_unchanged(database: str, sql_tree: Path) -> None:
    text = """100%s {"a":1} :name %(x)s \\ 'q' $1 ?"""
    literal = text.replace("'", "''")
    (sql_tree / "observe" / "zz_extra.sql").write_text(
        f"create or replace function tasker.extra() returns text language sql immutable return '{literal}';"
    )
    migrate.upgrade(database)
    assert query(database, "select tasker.extra()") == [(text,)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: (tree / "stray.sql").write_text("select 1;"), "names no folder of: stray.sql"),
        (lambda tree: (tree / "order.txt").write_text("nowhere\n"), "no such folder"),
        (lambda tree: (tree / "order.txt").write_text("kernel\nkernel\n"), "twice"),
    ],
)
def test_a_tree_and_its_order_that_disagree_are_refused(
    sql_tree: Path, change: Callable[[Path], object], message: str
) -> None:
    change(sql_tree)
    with pytest.raises(migrate.MigrationError, match=message):
        migrate.sql_tree_checksum()


# -- pgmq ------------------------------------------------------------------------------------------------------------


def test_pgmq_that_is_there_is_left_alone(bare_server: TestServer, empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute(migrate._bundled_pgmq()[0].encode())
        connection.execute("comment on schema pgmq is 'of somebody else'")
        connection.execute("select pgmq.create('theirs')")
    query(empty_database, "select pgmq.send('theirs', '{}')")
    before = dump(bare_server, empty_database, "--schema=pgmq", "--no-privileges")
    migrate.upgrade(empty_database, "0003_drive")
    migrate.upgrade(empty_database)
    # Queues of our own may be added; nothing that was there is altered.
    after = dump(bare_server, empty_database, "--schema=pgmq", "--no-privileges")
    assert [line for line in difference(before, after).splitlines() if re.match(r"-(?!--)", line)] == []
    assert query(empty_database, "select nspowner::regrole::text from pg_namespace where nspname = 'pgmq'") == [
        ("postgres",)
    ]
    info = migrate.schema_info(empty_database)
    assert (info["pgmq_source"], info["pgmq_version"]) == ("existing", "unknown")
    # And it is usable: a queue of ours in their pgmq.
    with psycopg.connect(empty_database) as connection:
        connection.execute("set role tasker_owner")
        connection.execute("select pgmq.create('ours')")
        connection.execute("select pgmq.send('ours', '{}')")
        assert connection.execute("select count(*) from pgmq.pop('ours')").fetchone() == (1,)
    migrate.downgrade(empty_database)
    assert query(empty_database, "select queue_name from pgmq.meta order by 1") == [("theirs",)]


def test_the_extension_is_taken_where_the_server_has_it(
    bare_server: TestServer, empty_database: str, server_folder: Path
) -> None:
    if bare_server.version < 18:
        pytest.skip("extension_control_path, to show the server a stand-in extension, came with PostgreSQL 18")
    extension = server_folder / "shared" / "extension"
    extension.mkdir(parents=True)
    (extension / "pgmq.control").write_text("default_version = '1.99.0'\nschema = pgmq\nrelocatable = false\n")
    (extension / "pgmq--1.99.0.sql").write_text(migrate._bundled_pgmq()[0])
    for path in (extension.parent, extension, *extension.iterdir()):
        path.chmod(0o755)
    dbname = conninfo_to_dict(empty_database)["dbname"]
    query(empty_database, f"alter database {dbname} set extension_control_path = '{extension.parent}:$system'")
    try:
        migrate.upgrade(empty_database)
        migrate.upgrade(empty_database, HEAD)
    finally:
        shutil.rmtree(extension.parent)
    assert query(empty_database, "select extversion from pg_extension where extname = 'pgmq'") == [("1.99.0",)]
    info = migrate.schema_info(empty_database)
    assert (info["pgmq_source"], info["pgmq_version"]) == ("extension", "1.99.0")


def test_removing_takes_everything_of_ours_along(bare_server: TestServer, empty_database: str) -> None:
    before = dump(bare_server, empty_database)
    migrate.upgrade(empty_database)
    migrate.downgrade(empty_database)
    assert query(empty_database, "select nspname from pg_namespace where nspname in ('tasker', 'pgmq')") == []
    left = difference(before, dump(bare_server, empty_database))
    assert re.findall(r"^\+.*\b(tasker|pgmq)\.", left, flags=re.MULTILINE) == []
    migrate.downgrade(empty_database)  # nothing to do is no error
    assert migrate.upgrade(empty_database).after == HEAD


def test_there_is_no_way_back_to_an_earlier_revision(database: str) -> None:
    with pytest.raises(migrate.MigrationError, match="only `base`"):
        migrate.downgrade(database, "0003_drive")


# -- who may ---------------------------------------------------------------------------------------------------------


def login(dsn: str, name: str, *grants: str) -> str:
    """Make a login with some rights and return its connection string."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
        for grant in grants:
            connection.execute(grant.encode())
    return make_conninfo(dsn, user=name)


def forget(dsn: str, name: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def test_a_role_without_rights_is_told_what_it_needs(server: TestServer, empty_database: str) -> None:
    nobody = login(empty_database, "test_nobody")
    try:
        with pytest.raises(migrate.MigrationError, match="needs a role that may create roles"):
            migrate.upgrade(nobody)
        assert query(empty_database, "select from pg_namespace where nspname in ('tasker', 'pgmq')") == []
    finally:
        forget(empty_database, "test_nobody")


def test_the_owner_of_a_database_who_may_act_as_tasker_owner_can_install(
    server: TestServer, database: str, empty_database: str
) -> None:
    dbname = conninfo_to_dict(empty_database)["dbname"]
    owner = login(
        empty_database,
        "test_owner",
        "grant tasker_owner to test_owner",
        f"alter database {dbname} owner to test_owner",
    )
    try:
        assert migrate.upgrade(owner).after == HEAD
        assert difference(dump(server, database), dump(server, empty_database)) == ""
    finally:
        query(empty_database, f"alter database {dbname} owner to postgres")
        forget(empty_database, "test_owner")


def test_a_look_needs_no_rights_when_nothing_is_to_do(server: TestServer, database: str) -> None:
    monitor = login(
        database,
        "test_monitor",
        "grant usage on schema tasker to test_monitor",
        "grant select on tasker.alembic_version, tasker.schema_info to test_monitor",
    )
    try:
        assert migrate.upgrade(monitor) == migrate.Upgrade(HEAD, HEAD, tree_applied=False)
    finally:
        forget(database, "test_monitor")


def test_migrations_at_once_queue_up(new_database: NewDatabase) -> None:
    first, second = new_database(), new_database()
    failures: list[BaseException] = []

    def run(dsn: str) -> None:
        try:
            migrate_in_process(dsn)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=[dsn]) for dsn in (first, first, second, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert migrate.current(first) == migrate.current(second) == HEAD


def migrate_in_process(dsn: str) -> None:
    """Alembic keeps its state in module globals, so what runs at once runs in processes, as it would in real life."""
    program = "import sys; from pgtasker import migrate; migrate.upgrade(sys.argv[1])"
    outcome = subprocess.run([sys.executable, "-c", program, dsn], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


# -- other people's Alembic ------------------------------------------------------------------------------------------

SERVICE_ENV = """
from alembic import context
from pgtasker import migrate

connection = context.config.attributes["connection"]
driver = connection.connection.driver_connection
migrate.prepare(driver)
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
    migrate.finish(driver)
"""

SERVICE_REVISION = """
from alembic import op

revision = "orders"
down_revision = None
branch_labels = ("service",)
depends_on = "0004_result_audit"


def upgrade():
    op.execute("create table public.orders (task_uuid uuid references tasker.tasks)")
"""


def test_a_service_runs_the_migrations_in_its_own_chain(
    server: TestServer, database: str, empty_database: str, tmp_path: Path
) -> None:
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text(SERVICE_ENV)
    (tmp_path / "versions" / "orders.py").write_text(SERVICE_REVISION)
    config = Config()
    config.set_main_option("script_location", str(tmp_path))
    config.set_main_option("path_separator", "space")
    config.set_main_option("version_locations", f"{tmp_path}/versions pgtasker:migrations/versions")
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(empty_database), poolclass=NullPool)
    with engine.connect() as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "heads")
    assert query(empty_database, "select to_regclass('public.orders') is not null") == [(True,)]
    # The same functions, triggers and views; only the version table is the service's own.
    theirs = difference(
        dump(server, database, "--schema=tasker", "--exclude-table=tasker.alembic_version"),
        dump(server, empty_database, "--schema=tasker"),
    )
    assert theirs == ""


# -- results reported before the audit existed -----------------------------------------------------------------------


def test_old_results_get_audit_rows_without_attribution(empty_database: str) -> None:
    migrate.upgrade(empty_database, "0003_drive")
    with psycopg.connect(empty_database) as connection:
        # A history of before: rows as they were, without the rule tables that the tree fills.
        connection.execute("set session_replication_role = replica")
        connection.execute(
            """
            insert into tasker.tasks (task_uuid, namespace, name, vocabulary, lifecycle, correlation_id)
            values (
                '00000000-0000-7000-8000-000000000001', 'default', 'old', 'tasker', 'tasker.task', gen_random_uuid()
            );

            insert into tasker.workflow_steps
                (workflow_step_uuid, task_uuid, namespace, name, handler, lifecycle, ordinal, max_attempts, base_delay,
                 max_delay, jitter, timeout)
            select
                ('00000000-0000-7000-8000-00000000010' || n)::uuid, '00000000-0000-7000-8000-000000000001', 'default',
                'step ' || n, 'old', 'tasker.workflow_step', n, 3, '1 s', '1 min', 0, '1 min'
            from generate_series(1, 2) as n;

            insert into tasker.workflow_step_transitions
                (workflow_step_uuid, task_uuid, namespace, lifecycle, from_state, to_state, event, sort_key,
                 most_recent, metadata, created_at)
            select
                ('00000000-0000-7000-8000-00000000010' || n)::uuid, '00000000-0000-7000-8000-000000000001', 'default',
                'tasker.workflow_step', from_state, to_state, event, sort_key, sort_key = 5,
                jsonb_build_object('worker_uuid', gen_random_uuid(), 'success', true),
                timestamptz '2020-01-01 00:00:00Z' + sort_key * interval '1 s'
            from (
                values
                    (1, null, 'pending', 'created', 1), (1, 'pending', 'enqueued', 'enqueue', 2),
                    (1, 'enqueued', 'in_progress', 'start', 3),
                    (1, 'in_progress', 'enqueued_for_orchestration', 'enqueue_for_orchestration', 4),
                    (1, 'enqueued_for_orchestration', 'complete', 'complete', 5),
                    (2, null, 'pending', 'created', 1), (2, 'pending', 'enqueued', 'enqueue', 2),
                    (2, 'enqueued', 'in_progress', 'start', 3),
                    (2, 'in_progress', 'enqueued_as_error_for_orchestration', 'enqueue_as_error_for_orchestration', 4),
                    (2, 'enqueued_as_error_for_orchestration', 'error', 'fail', 5)
            ) as history (n, from_state, to_state, event, sort_key)
            """
        )
    migrate.upgrade(empty_database)
    audit = """
        select s.name, a.success, a.worker_uuid, a.correlation_id, a.execution_time_ms, a.is_backfilled, t.sort_key,
            a.recorded_at = t.created_at, a.task_uuid = s.task_uuid
        from tasker.workflow_step_result_audit as a
        inner join tasker.workflow_step_transitions as t using (workflow_step_transition_uuid)
        inner join tasker.workflow_steps as s on a.workflow_step_uuid = s.workflow_step_uuid
        order by s.name
    """
    expected = [
        ("step 1", True, None, None, None, True, 4, True, True),
        ("step 2", False, None, None, None, True, 4, True, True),
    ]
    assert query(empty_database, audit) == expected
    history = "select step_name, is_backfilled from tasker.get_task_audit_history(%s) order by 1"
    assert query(empty_database, history, "00000000-0000-7000-8000-000000000001") == [
        ("step 1", True),
        ("step 2", True),
    ]
    migrate.upgrade(empty_database)
    with psycopg.connect(empty_database) as connection:
        migrate.apply_sql_tree(connection)
    assert query(empty_database, audit) == expected
