"""Transactions of the caller, broken connections, retries, cancellation, pools."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy.orm import scoped_session, sessionmaker

from pgtasker import AsyncClient, Client, InvalidTransition, NotFound

from .conftest import eventually, graph

Connect = Callable[..., psycopg.Connection[Any]]


def sqlalchemy_url(dsn: str) -> str:
    return dsn.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def engine(database: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(sqlalchemy_url(database))
    yield engine
    engine.dispose()


def end_other_backends(conn: psycopg.Connection[Any], application_name: str = "%", *, wait: bool = False) -> int:
    """Terminate every other connection to this database whose application name matches."""
    ended = conn.execute(
        "select pg_terminate_backend(pid, %s) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and application_name like %s",
        [5000 if wait else 0, application_name],
    ).fetchall()
    return len(ended)


# ------------------------------------------------------------------------------------------- callers' transactions


def test_a_psycopg_transaction_of_the_caller(client: Client, connect: Connect) -> None:
    own = connect(autocommit=False)
    task_uuid = client.create_task_from_graph(graph("a"), conn=own)
    assert client.task(task_uuid, conn=own).task_uuid == task_uuid
    with pytest.raises(NotFound):
        client.task(task_uuid)
    own.rollback()
    assert client.tasks() == []
    task_uuid = client.create_task_from_graph(graph("a"), conn=own)
    own.commit()
    assert [task.task_uuid for task in client.tasks()] == [task_uuid]


def test_a_sqlalchemy_connection_of_the_caller(client: Client, engine: sa.Engine) -> None:
    with engine.connect() as own:
        client.create_task_from_graph(graph("a"), conn=own)
        own.rollback()
        assert client.tasks() == []
        # Nothing else was executed through SQLAlchemy: its commit must know of our statement all the same.
        client.create_task_from_graph(graph("a"), conn=own)
        own.commit()
    assert len(client.tasks()) == 1
    with engine.begin() as own:
        client.create_task_from_graph(graph("a"), conn=own)
    assert len(client.tasks()) == 2


@pytest.mark.parametrize("scoped", [False, True])
def test_a_sqlalchemy_session_of_the_caller(
    client: Client, engine: sa.Engine, conn: psycopg.Connection[Any], scoped: bool
) -> None:
    conn.execute("create table orders (id int primary key)")
    factory = sessionmaker(engine)
    session: Any = scoped_session(factory) if scoped else factory()
    session.execute(sa.text("insert into orders values (1)"))
    client.create_task_from_graph(graph("a"), conn=session)
    session.rollback()
    assert client.tasks() == [] and conn.execute("select count(*) from orders").fetchone() == (0,)
    session.execute(sa.text("insert into orders values (1)"))
    client.create_task_from_graph(graph("a"), conn=session)
    session.commit()
    assert len(client.tasks()) == 1 and conn.execute("select count(*) from orders").fetchone() == (1,)
    session.close()


async def test_async_transactions_of_the_caller(database: str) -> None:
    async with AsyncClient(database) as client, await psycopg.AsyncConnection.connect(database) as own:
        await client.create_task_from_graph(graph("a"), conn=own)
        await own.rollback()
        assert await client.tasks() == []
        await client.create_task_from_graph(graph("a"), conn=own)
        await own.commit()
        assert len(await client.tasks()) == 1


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="SQLAlchemy's asyncio part needs greenlet")
async def test_async_sqlalchemy_transactions_of_the_caller(database: str) -> None:
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    engine = create_async_engine(sqlalchemy_url(database))
    async with AsyncClient(database) as client:
        async with AsyncSession(engine) as session:
            await client.create_task_from_graph(graph("a"), conn=session)
            await session.rollback()
            assert await client.tasks() == []
            await client.create_task_from_graph(graph("a"), conn=session)
            await session.commit()
        async with engine.connect() as connection:
            await client.create_task_from_graph(graph("a"), conn=connection)
            await connection.commit()
        assert len(await client.tasks()) == 2
    await engine.dispose()


async def test_other_connections_are_refused_with_their_type(client: Client, database: str) -> None:
    with pytest.raises(TypeError, match=r"not builtins\.str"):
        client.tasks(conn="postgresql://")  # type: ignore[arg-type]
    async with AsyncClient(database) as other, await psycopg.AsyncConnection.connect(database) as own:
        with pytest.raises(TypeError, match=r"not psycopg\.AsyncConnection"):
            client.tasks(conn=own)  # type: ignore[arg-type]
        with psycopg.connect(database) as sync, pytest.raises(TypeError, match=r"not psycopg\.Connection"):
            await other.tasks(conn=sync)  # type: ignore[arg-type]


def test_an_error_leaves_the_callers_transaction_to_the_caller(client: Client, connect: Connect) -> None:
    own = connect(autocommit=False)
    with pytest.raises(NotFound):
        client.cancel_task(uuid.uuid4(), "r", "anna", conn=own)
    assert own.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    own.rollback()


def test_the_callers_row_factory_and_cursor_do_not_matter(client: Client, connect: Connect) -> None:
    own = connect(row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.RawCursor)
    task_uuid = client.create_task_from_graph(graph("a"), conn=own)
    assert client.task(task_uuid, conn=own).name == "graph"


async def test_a_pool_of_the_caller(database: str) -> None:
    with ConnectionPool(database, min_size=1, max_size=1) as pool:
        client = Client(pool=pool)
        task_uuid = client.create_task_from_graph(graph("a"))
        assert client.task(task_uuid).name == "graph"
        client.close()
        assert not pool.closed
    async with AsyncConnectionPool(database, min_size=1, max_size=1, open=False) as async_pool:
        async with AsyncClient(pool=async_pool) as other:
            assert (await other.task(task_uuid)).name == "graph"
        assert not async_pool.closed


def test_prepared_statements_can_be_switched_off(database: str, connect: Connect) -> None:
    with Client(database, pgbouncer=True, max_size=1) as client:
        own = connect(prepare_threshold=None)
        for _ in range(10):
            client.schema_version()
            client.schema_version(conn=own)
        assert own.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)


# ------------------------------------------------------------------------------------ retries and lost connections


def fail_first(conn: psycopg.Connection[Any], times: int, sqlstate: str) -> None:
    """Let schema_version() and current_cursor() raise an error for their first calls."""
    conn.execute("create sequence calls; grant usage on sequence calls to public")
    for name in ("schema_version", "current_cursor"):
        conn.execute(
            f"""
            create or replace function tasker.{name}() returns text language plpgsql as $$
            begin
              if nextval('public.calls') <= {times} then
                raise exception 'on purpose' using errcode = '{sqlstate}';
              end if;
              return 'fine';
            end $$
            """.encode()
        )


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "25006"])
def test_conflicts_are_repeated(api: Any, conn: psycopg.Connection[Any], sqlstate: str) -> None:
    fail_first(conn, 3, sqlstate)
    assert api.schema_version() == "fine"


def test_conflicts_are_not_repeated_for_ever(api: Any, conn: psycopg.Connection[Any]) -> None:
    fail_first(conn, 1_000_000, "40001")
    with pytest.raises(psycopg.errors.SerializationFailure):
        api.schema_version()
    assert conn.execute("select last_value from calls").fetchone() == (6,)


def test_nothing_is_repeated_in_the_callers_transaction(
    client: Client, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    fail_first(conn, 1, "40001")
    with pytest.raises(psycopg.errors.SerializationFailure):
        client.schema_version(conn=connect(autocommit=False))


@pytest.mark.parametrize("sqlstate", ["55P03", "57014", "53200", "P0001"])
def test_other_errors_are_not_repeated(client: Client, conn: psycopg.Connection[Any], sqlstate: str) -> None:
    fail_first(conn, 1, sqlstate)
    with pytest.raises(psycopg.Error) as caught:
        client.schema_version()
    assert caught.value.sqlstate == sqlstate


def test_connections_that_died_while_idle_are_replaced(api: Any, conn: psycopg.Connection[Any]) -> None:
    for _ in range(3):
        task_uuid = api.create_task_from_graph(graph("a"))
        assert end_other_backends(conn, wait=True) >= 1
    assert api.task(task_uuid).name == "graph"


def test_a_read_only_server_is_left_for_another(client: Client, conn: psycopg.Connection[Any], database: str) -> None:
    """After a switchover the old primary still answers; its refusal must cost the connection."""
    name = conn.info.dbname
    conn.execute(f"alter database {name} set default_transaction_read_only = on".encode())
    with Client(psycopg.conninfo.make_conninfo(database, target_session_attrs="any"), max_size=1) as stuck:
        assert stuck.tasks() == []

        def heal() -> None:
            with psycopg.connect(database, options="-c default_transaction_read_only=off", autocommit=True) as healer:
                healer.execute(f"alter database {name} set default_transaction_read_only = off".encode())

        timer = threading.Timer(0.3, heal)
        timer.start()
        task_uuid = stuck.create_task_from_graph(graph("a"))
        timer.join()
        assert stuck.task(task_uuid).name == "graph"


def test_a_call_that_may_have_been_carried_out_is_not_repeated(
    client: Client, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    blocker = connect(autocommit=False)
    blocker.execute("lock table tasker.tasks in access exclusive mode")
    caught: list[BaseException] = []

    def create() -> None:
        try:
            client.create_task_from_graph(graph("a"))
        except psycopg.OperationalError as error:
            caught.append(error)

    thread = threading.Thread(target=create)
    thread.start()
    eventually(lambda: waiting_for_lock(conn))
    end_other_backends(conn, "pgtasker")
    thread.join(20)
    blocker.rollback()
    assert len(caught) == 1
    assert client.tasks() == []


def test_a_call_with_an_idempotency_key_is_repeated(
    client: Client, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    blocker = connect(autocommit=False)
    blocker.execute("lock table tasker.tasks in access exclusive mode")
    created: list[uuid.UUID] = []
    thread = threading.Thread(
        target=lambda: created.append(client.create_task_from_graph(graph("a"), idempotency_key="once"))
    )
    thread.start()
    eventually(lambda: waiting_for_lock(conn))
    end_other_backends(conn, "pgtasker")
    blocker.rollback()
    thread.join(20)
    assert [task.task_uuid for task in client.tasks()] == created


def waiting_for_lock(conn: psycopg.Connection[Any]) -> bool:
    row = conn.execute(
        "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    ).fetchone()
    return bool(row and row[0])


# ------------------------------------------------------------------------------------------------------------ feed


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_feed_goes_on_over_broken_connections(kind: str, database: str, conn: psycopg.Connection[Any]) -> None:
    """Every transition arrives once, though the reader's connections are killed again and again."""
    seen: list[uuid.UUID] = []
    wanted = 30
    done = threading.Event()

    def read() -> None:
        if kind == "sync":
            with Client(database, application_name="reader") as reader:
                for change in reader.events(poll_interval=0.02):
                    seen.append(change.transition_uuid)
                    if done.is_set():
                        return
        else:
            asyncio.run(read_async())

    async def read_async() -> None:
        async with AsyncClient(database, application_name="reader") as reader:
            async for change in reader.events(poll_interval=0.02):
                seen.append(change.transition_uuid)
                if done.is_set():
                    return

    def logged() -> set[uuid.UUID]:
        return {
            row[0]
            for row in conn.execute(
                "select task_transition_uuid from tasker.task_transitions"
                " union all select workflow_step_transition_uuid from tasker.workflow_step_transitions"
            )
        }

    thread = threading.Thread(target=read)
    thread.start()
    with Client(database, application_name="writer") as writer:
        for _ in range(wanted):
            writer.create_task_from_graph(graph("a"))
            end_other_backends(conn, "reader%")
        eventually(lambda: len(seen) >= len(logged()))
        assert len(seen) == len(set(seen))
        assert set(seen) == logged()
        done.set()
        writer.create_task_from_graph(graph("a"))
    thread.join(20)
    assert not thread.is_alive()


def test_the_feed_ends_when_its_client_is_closed(database: str) -> None:
    client = Client(database)
    client.create_task_from_graph(graph("a"))
    feed = client.events(poll_interval=0.02)
    next(feed)
    client.close()
    list(feed)


# ---------------------------------------------------------------------------------------------------- cancellation


async def test_cancelled_calls_leak_no_connection(database: str, conn: psycopg.Connection[Any]) -> None:
    async with AsyncClient(database, min_size=3, max_size=3, application_name="cancelled") as client:
        worker_uuid = await client.register_worker("w")

        async def work() -> None:
            await client.create_task_from_graph(graph("a"))
            for claim in await client.claim_steps(worker_uuid, limit=2):
                await client.complete_step(claim.workflow_step_uuid, claim.claim_uuid)

        async def cancelled() -> None:
            task = asyncio.create_task(work())
            await asyncio.sleep(random.uniform(0, 0.02))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        for _ in range(10):
            await asyncio.gather(*(cancelled() for _ in range(50)))
        # All three connections can be had at once, and none is in a transaction.
        pool = client._pool
        assert pool is not None
        held = [await pool.getconn(timeout=10) for _ in range(3)]
        assert {one.info.transaction_status.name for one in held} == {"IDLE"}
        for one in held:
            await pool.putconn(one)
        stuck = conn.execute(
            "select count(*) from pg_stat_activity where application_name = 'cancelled' and state <> 'idle'"
        ).fetchone()
        assert stuck == (0,)
        assert await client.check_consistency() == []


async def test_of_many_equal_commands_one_succeeds(database: str) -> None:
    async with AsyncClient(database) as client:
        task_uuid = await client.create_task_from_graph(graph("a"))
        calls = [asyncio.create_task(client.cancel_task(task_uuid, "r", "anna")) for _ in range(100)]
        await asyncio.sleep(0)
        calls[0].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(answer, str) for answer in answers) + sum(
            isinstance(answer, asyncio.CancelledError) for answer in answers
        ) in (1, 2)
        assert all(isinstance(a, str | InvalidTransition | asyncio.CancelledError) for a in answers)
        assert (await client.task(task_uuid)).phase == "cancelled"
        assert await client.create_task_from_graph(graph("a"))


def test_one_client_serves_many_threads(client: Client) -> None:
    created: list[uuid.UUID] = []
    threads = [
        threading.Thread(target=lambda: created.append(client.create_task_from_graph(graph("a")))) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(client.tasks()) == len(set(created)) == 20


def test_sessions_are_closed_with_the_client(database: str, conn: psycopg.Connection[Any]) -> None:
    def sessions() -> int:
        found = conn.execute("select count(*) from pg_stat_activity where application_name = 'visible'").fetchone()
        assert found is not None
        return int(found[0])

    with Client(database, application_name="visible") as client:
        client.tasks()
        eventually(lambda: sessions() == 1)
    eventually(lambda: sessions() == 0)
