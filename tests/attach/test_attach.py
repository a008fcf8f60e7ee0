"""Rows of a user's own table with a lifecycle: the same guarantees as tasks have, and no way around them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.export.history import ORDER, shop
from tests.kernel.engine import Engine, Row, refused

Connect = Callable[..., psycopg.Connection[Any]]
Log = list[tuple[str | None, str, str]]


def fire(engine: Engine, key: object, event: str, **metadata: Any) -> str:
    return engine.one("select tasker.fire('shop.orders', %s, %s, %s)", str(key), event, json.dumps(metadata))  # type: ignore[no-any-return]


def state(engine: Engine, key: object) -> str | None:
    return engine.one("select tasker.attached_state('shop.orders', %s)", str(key))  # type: ignore[no-any-return]


def log(engine: Engine, key: object) -> Log:
    return [
        (row["from_state"], row["event"], row["to_state"])
        for row in engine.rows(
            "select from_state, event, to_state from tasker.attached_transitions"
            " where attached_table = 'shop.orders' and entity_key = %s order by sort_key",
            str(key),
        )
    ]


CREATED = (None, "create", "placed")
PAID = ("placed", "pay", "paid")
SHIPPED = ("paid", "ship", "shipped")


def sound(engine: Engine) -> None:
    """Every log is unbroken and has one current row, which is the last."""
    assert (
        engine.rows(
            """
            select attachment_uuid, entity_key from tasker.attached_transitions
             group by attachment_uuid, entity_key
            having count(*) <> max(sort_key) or count(*) filter (where most_recent) <> 1
                or max(sort_key) filter (where most_recent) <> max(sort_key)
            """
        )
        == []
    )


# -- rows come and go


def test_rows_that_are_there_and_rows_that_come_start_in_the_initial_state(orders: Engine) -> None:
    orders.run("insert into shop.orders (order_id) values (3), (4)")
    orders.run("insert into shop.orders (order_id) select g from generate_series(5, 104) g")
    assert [log(orders, key) for key in (1, 2, 3, 104)] == [[CREATED]] * 4
    assert orders.one("select count(*) from tasker.attached_overview where state = 'placed'") == 104
    sound(orders)


def test_every_way_to_insert_starts_rows(orders: Engine) -> None:
    with orders.conn.cursor() as cursor, cursor.copy("copy shop.orders (order_id) from stdin") as copy:
        copy.write_row((10,))
    orders.run("insert into shop.orders (order_id) values (10), (11) on conflict do nothing")
    orders.run("insert into shop.orders (order_id) values (11), (12) on conflict (order_id) do update set amount = 5")
    orders.run("insert into shop.orders (order_id) select 0 where false")
    assert [log(orders, key) for key in (10, 11, 12)] == [[CREATED]] * 3


def test_a_row_that_is_rolled_back_leaves_no_log(orders: Engine) -> None:
    with orders.conn.transaction(force_rollback=True):
        orders.run("insert into shop.orders (order_id) values (3)")
        fire(orders, 3, "pay")
        fire(orders, 1, "pay")
        assert (state(orders, 3), state(orders, 1)) == ("paid", "paid")
    assert (state(orders, 3), state(orders, 1)) == (None, "placed")
    assert log(orders, 1) == [CREATED]
    fire(orders, 1, "pay")
    sound(orders)


def test_a_deleted_row_keeps_its_log_and_moves_no_more(orders: Engine) -> None:
    fire(orders, 1, "pay")
    orders.run("delete from shop.orders where order_id = 1")
    assert log(orders, 1) == [CREATED, PAID]
    assert state(orders, 1) == "paid"
    with refused("TK404") as refusal:
        fire(orders, 1, "ship")
    assert "has no row 1" in refusal.message
    with refused("TK409") as refusal:
        orders.run("insert into shop.orders (order_id) values (9), (1)")
    assert "has a log already" in refusal.message
    assert state(orders, 9) is None


def test_the_key_of_a_row_stays(orders: Engine) -> None:
    orders.run("update shop.orders set amount = 2, order_id = order_id")
    with refused("TK409"):
        orders.run("update shop.orders set order_id = 7 where order_id = 1")


# -- moving


def test_fire_moves_and_answers_the_state(orders: Engine) -> None:
    assert fire(orders, 1, "pay", reason="cash") == "paid"
    assert fire(orders, " 01", "ship") == "shipped", "the key in any spelling of its type"
    assert log(orders, 1) == [CREATED, PAID, SHIPPED]
    assert state(orders, 2) == "placed"
    assert orders.one("select tasker.fire('shop.orders', '2', 'pay', p_requested_by => 'ada')") == "paid"
    written = orders.rows(
        "select metadata, login from tasker.attached_transitions where event = 'pay' order by created_at"
    )
    assert [row["metadata"] for row in written] == [{"reason": "cash"}, {"requested_by": "ada"}]
    assert {row["login"] for row in written} == {"postgres"}
    sound(orders)


def test_a_plain_insert_into_the_log_moves_too(orders: Engine) -> None:
    insert = (
        "insert into tasker.attached_transitions (attached_table, entity_key, event) values ('shop.orders', %s, %s)"
    )
    orders.run(insert, "1", "pay")
    orders.run(insert, "1", "ship")
    assert log(orders, 1) == [CREATED, PAID, SHIPPED]
    orders.run(
        insert.replace(
            "values ('shop.orders', %s, %s)",
            "select 'shop.orders', order_id::text, 'pay' from shop.orders where order_id > 1",
        )
    )
    assert state(orders, 2) == "paid"
    with refused("TK409"):
        orders.run(insert, "1", "pay")
    sound(orders)


def test_several_moves_of_one_row_in_one_statement(orders: Engine) -> None:
    orders.run(
        "insert into tasker.attached_transitions (attached_table, entity_key, event)"
        " values ('shop.orders', '1', 'pay'), ('shop.orders', '1', 'ship')"
    )
    assert log(orders, 1) == [CREATED, PAID, SHIPPED]
    sound(orders)


def test_what_is_not_allowed_is_refused_with_what_is(orders: Engine) -> None:
    with refused("TK409") as refusal:
        fire(orders, 1, "ship")
    assert refusal.message == "shop.orders 1 is placed: ship is not allowed"
    assert refusal.hint == "Allowed from placed: call_off (to called off), pay (to paid)."
    assert refusal.detail["allowed"] == ["call_off", "pay"]
    fire(orders, 1, "call_off")
    with refused("TK409") as refusal:
        fire(orders, 1, "pay")
    assert "terminal" in refusal.hint
    with refused("TK404"):
        fire(orders, 99, "pay")
    with refused("TK404"):
        orders.one("select tasker.fire('pg_class', '1', 'pay')")
    with refused("22P02"):
        fire(orders, "one", "pay")
    with refused("23514"):
        orders.one("select tasker.fire('shop.orders', '2', 'pay', '[1]')")
    with refused("23514"):
        orders.run(
            "insert into tasker.attached_transitions (attached_table, entity_key, event, metadata)"
            " values ('shop.orders', '2', 'pay', 'null')"
        )
    assert log(orders, 2) == [CREATED]
    sound(orders)


# -- the walls, as superuser

_ROW = """
    insert into tasker.attached_transitions
        (attachment_uuid, attached_table, entity_key, namespace, lifecycle, from_state, event, to_state, sort_key, most_recent)
    select attachment_uuid, attached_table, entity_key, namespace, lifecycle, %s, %s, %s, %s, %s
    from tasker.attached_transitions where entity_key = '1' and sort_key = 1
"""

ILLEGAL: dict[str, tuple[Any, ...]] = {
    "no such move": ("placed", "ship", "shipped", 2, True),
    "not from here": ("paid", "ship", "shipped", 2, True),
    "no such state": ("placed", "pay", "eaten", 2, True),
    "a hole": ("placed", "pay", "paid", 3, True),
    "not current": ("placed", "pay", "paid", 2, False),
    "a second beginning": (None, "create", "placed", 1, True),
}


@pytest.mark.parametrize("fault", ILLEGAL)
@pytest.mark.parametrize("flipped", [True, False])
def test_an_illegal_row_is_refused_whoever_inserts_it(orders: Engine, fault: str, flipped: bool) -> None:
    with refused("TK409", "23505"), orders.conn.transaction():
        if flipped:
            orders.run("update tasker.attached_transitions set most_recent = false where entity_key = '1'")
        orders.run(_ROW, *ILLEGAL[fault])
    assert log(orders, 1) == [CREATED]


def test_a_legal_row_with_everything_in_it_is_taken(orders: Engine) -> None:
    with orders.conn.transaction():
        orders.run("update tasker.attached_transitions set most_recent = false where entity_key = '1'")
        orders.run(_ROW, "placed", "pay", "paid", 2, True)
    assert log(orders, 1) == [CREATED, PAID]
    sound(orders)


@pytest.mark.parametrize("role", ["session", "replica"])
@pytest.mark.parametrize(
    "statement",
    [
        "update tasker.attached_transitions set to_state = 'shipped'",
        "update tasker.attached_transitions set most_recent = false",
        "update tasker.attached_transitions set metadata = '{}'::jsonb, most_recent = true",
        "update tasker.attached_transitions set login = 'somebody', most_recent = false",
        "delete from tasker.attached_transitions",
        "truncate tasker.attached_transitions",
    ],
)
def test_the_log_is_append_only(orders: Engine, statement: str, role: str) -> None:
    orders.run(f"set session_replication_role = {'replica' if role == 'replica' else 'origin'}")
    with refused("TK409"):
        orders.run(statement)
    assert log(orders, 1) == [CREATED]


def test_it_can_not_be_left_without_a_state(orders: Engine) -> None:
    with refused("TK409"), orders.conn.transaction():
        orders.run("update tasker.attached_transitions set most_recent = false where entity_key = '1'")
    assert state(orders, 1) == "placed"


# -- guards


def guarded(engine: Engine, function: str) -> None:
    engine.run("create schema if not exists shop")
    engine.run(function)
    engine.one("select tasker.register_guard('in_stock', 'shop.in_stock(text)', 'The order is in stock.')")
    lifecycle = json.loads(json.dumps(ORDER["lifecycles"][0]))
    lifecycle["transitions"][2]["guard"] = "in_stock"
    engine.run("drop schema shop cascade")
    shop(engine.conn, lifecycles=[lifecycle])
    engine.run(function)


IN_STOCK = """
    create or replace function shop.in_stock(text) returns boolean
    language sql stable as 'select amount <= 10 from shop.orders where order_id = $1::int'
"""


def test_a_guard_of_ones_own(engine: Engine) -> None:
    guarded(engine, IN_STOCK.replace("select amount <= 10 from shop.orders where order_id = $1::int", "select true"))
    engine.run(IN_STOCK)
    fire(engine, 1, "pay")
    engine.run("update shop.orders set amount = 11 where order_id = 1")
    with refused("TK422") as refusal:
        fire(engine, 1, "ship")
    assert refusal.message == "shop.orders 1 is paid: ship asks for in_stock"
    assert refusal.hint == "The order is in stock."
    engine.run("update shop.orders set amount = 10 where order_id = 1")
    assert fire(engine, 1, "ship") == "shipped"
    fire(engine, 2, "pay")
    engine.run("drop function shop.in_stock(text)")
    with refused("TK404"):
        fire(engine, 2, "ship")


def test_a_guard_runs_with_the_rights_of_the_caller(engine: Engine, login: Callable[..., str]) -> None:
    guarded(
        engine,
        "create or replace function shop.in_stock(text) returns boolean language sql as 'select current_user <> ''tasker_owner'''",
    )
    dsn = login("tasker_client")
    user = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
    engine.run(f"grant usage on schema shop to {user}; grant select, update on shop.orders to {user}")
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert fire(Engine(conn), 1, "pay") == "paid"
        assert fire(Engine(conn), 1, "ship") == "shipped"


@pytest.mark.parametrize(
    ("name", "function", "description"),
    [
        ("Not A Name", "pg_catalog.text_is(text)", "x"),
        ("always", "shop.ok(text)", "x"),
        ("mine", "shop.number(text)", "x"),
        ("mine", "shop.of_int(int)", "x"),
        ("mine", "shop.ok(text)", ""),
    ],
)
def test_a_guard_that_can_not_be_one(engine: Engine, name: str, function: str, description: str) -> None:
    engine.run(
        """
        create schema shop;
        create function shop.ok(text) returns boolean language sql return true;
        create function shop.number(text) returns int language sql return 1;
        create function shop.of_int(int) returns boolean language sql return true;
        """
    )
    with refused("TK400", "42883"):
        engine.one("select tasker.register_guard(%s, %s, %s)", name, function, description)


# -- two at once


def test_of_two_who_fire_at_once_one_wins(orders: Engine, connect: Connect) -> None:
    first, second = Engine(connect(autocommit=False)), Engine(connect())
    assert fire(first, 1, "pay") == "paid"
    caught: list[psycopg.Error] = []

    def too_late() -> None:
        try:
            fire(second, 1, "pay")
        except psycopg.Error as error:
            caught.append(error)

    thread = threading.Thread(target=too_late)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive(), "waits for the first"
    first.conn.commit()
    thread.join(30)
    (error,) = caught
    assert error.sqlstate == "TK409"
    assert error.diag.message_primary == "shop.orders 1 is paid: pay is not allowed"
    assert log(orders, 1) == [CREATED, PAID]


def test_many_at_once_leave_unbroken_logs(orders: Engine, connect: Connect) -> None:
    orders.run("insert into shop.orders (order_id) select g from generate_series(3, 12) g")
    writers = [Engine(connect()) for _ in range(6)]
    won: list[tuple[int, str]] = []

    def work(engine: Engine) -> None:
        for key in range(1, 13):
            for event in ("pay", "ship", "call_off"):
                try:
                    fire(engine, key, event)
                    won.append((key, event))
                except psycopg.Error as error:
                    assert error.sqlstate == "TK409"

    threads = [threading.Thread(target=work, args=(engine,)) for engine in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    sound(orders)
    assert (
        len(won) == len(set(won)) == orders.one("select count(*) from tasker.attached_transitions where sort_key > 1")
    )
    assert orders.one("select bool_and(is_terminal) from tasker.attached_overview")


def test_a_deletion_waits_for_a_move(orders: Engine, connect: Connect) -> None:
    mover, deleter = Engine(connect(autocommit=False)), Engine(connect())
    fire(mover, 1, "pay")
    deleter.run("set lock_timeout = '200ms'")
    with refused("55P03"):
        deleter.run("delete from shop.orders where order_id = 1")
    mover.conn.commit()
    assert deleter.run("delete from shop.orders where order_id = 1") == 1
    assert state(orders, 1) == "paid"


# -- repeating


def test_the_same_request_moves_a_row_once(orders: Engine, connect: Connect) -> None:
    call = "select tasker.fire('shop.orders', '1', %s, p_requested_by => 'ada', p_request_id => %s)"
    assert [orders.one(call, "pay", "r1") for _ in range(3)] == ["paid"] * 3
    assert log(orders, 1) == [CREATED, PAID]
    assert orders.one(call, "ship", "r2") == "shipped"
    assert orders.one(call, "pay", "r1") == "paid", "the answer of then, whatever happened since"
    with refused("TK423"):
        orders.one(call, "ship", "r1")
    assert log(orders, 1) == [CREATED, PAID, SHIPPED]
    assert orders.one("select tasker.fire('shop.orders', '2', 'pay', p_request_id => 'r1')") == "paid", "of one row"
    # two at once: the second waits for the first and answers the same
    answers: list[object] = []

    def pay(conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into shop.orders (order_id) values (91) on conflict do nothing")
        answers.append(conn.execute("select tasker.fire('shop.orders', '91', 'pay', p_request_id => 'r9')").fetchone())

    threads = [threading.Thread(target=pay, args=(connect(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4 and len({str(answer) for answer in answers}) == 1
    assert log(orders, 91) == [CREATED, PAID]
    sound(orders)


# -- attaching and detaching


def test_attaching_again_is_the_same_or_refused(orders: Engine) -> None:
    attach = "select tasker.attach_lifecycle('shop.orders', 'order_id', 'order.order', %s)"
    known = orders.one("select attachment_uuid from tasker.attached_lifecycles")
    assert orders.one(attach, "default") == known
    with refused("TK409"):
        orders.one(attach, "elsewhere")


@pytest.mark.parametrize(
    ("table", "key", "lifecycle", "path"),
    [
        ("shop.orders", "amount", "order.order", "key"),
        ("shop.orders", "nothing", "order.order", "key"),
        ("shop.pairs", "one", "order.order", "key"),
        ("shop.partly", "one", "order.order", "key"),
        ("shop.orders", "order_id", "order.nothing", "lifecycle"),
        ("shop.orders", "order_id", "tasker.task", "lifecycle"),
        ("shop.view", "order_id", "order.order", "table"),
        ("fleeting", "order_id", "order.order", "table"),
    ],
)
def test_what_can_not_be_attached(orders: Engine, table: str, key: str, lifecycle: str, path: str) -> None:
    orders.one("select tasker.detach_lifecycle('shop.orders')")
    orders.run(
        """
        create table shop.pairs (one int, two int, primary key (one, two));
        create table shop.partly (one int not null);
        create unique index on shop.partly (one) where one > 0;
        create view shop.view as select * from shop.orders;
        create temporary table fleeting (order_id int primary key);
        """
    )
    with refused("TK400") as refusal:
        orders.one("select tasker.attach_lifecycle(%s, %s, %s)", table, key, lifecycle)
    assert path in {problem["path"] for problem in refusal.detail["problems"]}
    assert orders.one("select count(*) from tasker.attached_lifecycles where detached_at is null") == 0


def test_a_key_that_does_not_fit_is_refused(orders: Engine) -> None:
    orders.run("create table shop.notes (title text primary key)")
    orders.one("select tasker.attach_lifecycle('shop.notes', 'title', 'order.order')")
    for title in ("", "x" * 201, "two\nlines"):
        with refused("TK400"):
            orders.run("insert into shop.notes values (%s)", title)
    orders.run("insert into shop.notes values ('it''s \"quoted\" \\ here')")
    assert orders.one("select tasker.fire('shop.notes', %s, 'pay')", 'it\'s "quoted" \\ here') == "paid"


def test_names_that_need_quotes_and_partitions(orders: Engine) -> None:
    orders.run(
        """
        create schema "The Shop";
        create table "The Shop"."Big Orders" ("Order Id" bigint primary key) partition by range ("Order Id");
        create table "The Shop".low partition of "The Shop"."Big Orders" for values from (0) to (100);
        create table "The Shop".high partition of "The Shop"."Big Orders" for values from (100) to (1000);
        insert into "The Shop"."Big Orders" values (1), (101);
        """
    )
    table = '"The Shop"."Big Orders"'
    orders.one("select tasker.attach_lifecycle(%s, 'Order Id', 'order.order')", table)
    orders.run(f"insert into {table} values (2), (102)")
    assert orders.one("select tasker.fire(%s, '102', 'pay')", table) == "paid"
    assert orders.one("select tasker.fire(%s, '1', 'pay')", table) == "paid"
    with refused("TK409"):
        orders.run(f'update {table} set "Order Id" = 3 where "Order Id" = 2')


def test_detaching_leaves_the_log_and_frees_the_table(orders: Engine) -> None:
    fire(orders, 1, "pay")
    orders.one("select tasker.detach_lifecycle('shop.orders')")
    assert log(orders, 1) == [CREATED, PAID]
    assert state(orders, 1) is None
    with refused("TK404"):
        fire(orders, 1, "ship")
    with refused("TK404"):
        orders.one("select tasker.detach_lifecycle('shop.orders')")
    orders.run("insert into shop.orders (order_id) values (3)")
    orders.run("update shop.orders set order_id = 4 where order_id = 3")
    assert (
        orders.values("select tgname from pg_trigger where tgrelid = 'shop.orders'::regclass and not tgisinternal")
        == []
    )
    # attached again, its rows begin again, under logs of their own
    orders.one("select tasker.attach_lifecycle('shop.orders', 'order_id', 'order.order')")
    assert (state(orders, 1), state(orders, 4)) == ("placed", "placed")
    assert log(orders, 1).count(CREATED) == 2
    sound(orders)


def test_a_table_that_was_dropped_leaves_its_log(orders: Engine) -> None:
    orders.run("drop table shop.orders; create table shop.orders (order_id int primary key)")
    orders.one("select tasker.attach_lifecycle('shop.orders', 'order_id', 'order.order')")
    assert orders.one("select count(*) from tasker.attached_lifecycles where detached_at is not null") == 1
    assert log(orders, 1) == [CREATED]


def test_a_lifecycle_in_use_can_not_lose_rules(orders: Engine) -> None:
    lifecycle = json.loads(json.dumps(ORDER["lifecycles"][0]))
    lifecycle["transitions"].pop()
    with refused("TK409"):
        orders.one("select tasker.define_vocabulary(%s)", json.dumps({**ORDER, "lifecycles": [lifecycle]}))


# -- who may


def test_a_client_moves_rows_that_it_may_change(orders: Engine, login: Callable[..., str]) -> None:
    dsn = login("tasker_client")
    user = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
    with psycopg.connect(dsn, autocommit=True) as conn:
        client = Engine(conn)
        for right in ("usage on schema shop", "select on shop.orders"):
            with refused("42501"):
                fire(client, 1, "pay")
            orders.run(f"grant {right} to {user}")
        with refused("42501"):
            fire(client, 1, "pay")
        orders.run(f"grant insert, update (amount) on shop.orders to {user}")
        assert fire(client, 1, "pay") == "paid"
        client.run("insert into shop.orders (order_id) values (3)")
        client.run(
            "insert into tasker.attached_transitions (attached_table, entity_key, event) values ('shop.orders', '3', 'pay')"
        )
        assert orders.values("select login from tasker.attached_transitions where event = 'pay'") == [user, user]
        for columns, values in (
            ("attached_table, entity_key, event, to_state", "'shop.orders', '1', 'ship', 'shipped'"),
            ("attached_table, entity_key, event, sort_key", "'shop.orders', '1', 'ship', 3"),
            ("attached_table, entity_key, event, created_at", "'shop.orders', '1', 'ship', now()"),
            ("attached_table, entity_key, event, login", "'shop.orders', '1', 'ship', 'somebody'"),
        ):
            with refused("42501"):
                client.run(f"insert into tasker.attached_transitions ({columns}) values ({values})")
        for statement in (
            "update tasker.attached_transitions set most_recent = false",
            "delete from tasker.attached_transitions",
            "select tasker.attach_lifecycle('shop.orders', 'order_id', 'order.order')",
            "select tasker.detach_lifecycle('shop.orders')",
            "select tasker.register_guard('mine', 'shop.ok(text)', 'x')",
        ):
            with refused("42501", "42883"):
                client.run(statement)


def test_row_security_of_the_table_holds(orders: Engine, login: Callable[..., str]) -> None:
    """Whoever does not see a row does not move it."""
    dsn = login("tasker_client")
    user = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
    orders.run(
        f"""
        grant usage on schema shop to {user}; grant select, update on shop.orders to {user};
        alter table shop.orders enable row level security;
        create policy own on shop.orders to {user} using (order_id = 1);
        """
    )
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert fire(Engine(conn), 1, "pay") == "paid"
        with refused("TK404"):
            fire(Engine(conn), 2, "pay")


def test_an_application_that_knows_nothing_of_it_inserts_rows(orders: Engine, login: Callable[..., str]) -> None:
    dsn = login()
    user = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
    orders.run(f"grant usage on schema shop to {user}; grant select, insert, update on shop.orders to {user}")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("insert into shop.orders (order_id) values (3)")
        with refused("TK409"):
            conn.execute("update shop.orders set order_id = 4 where order_id = 3")
    assert log(orders, 3) == [CREATED]


def test_an_operator_attaches_tables_of_its_own(engine: Engine, login: Callable[..., str]) -> None:
    engine.one("select tasker.define_vocabulary(%s)", json.dumps(ORDER))
    owner, other = login("tasker_operator"), login("tasker_operator")
    user = psycopg.conninfo.conninfo_to_dict(owner)["user"]
    engine.run(f"create schema shop authorization {user}; grant usage on schema shop to public")
    attach = "select tasker.attach_lifecycle('shop.orders', 'order_id', 'order.order')"
    with psycopg.connect(owner, autocommit=True) as conn, psycopg.connect(other, autocommit=True) as stranger:
        conn.execute("create table shop.orders (order_id int primary key)")
        conn.execute("insert into shop.orders values (1)")
        with refused("42501"):
            stranger.execute(attach)
        conn.execute(attach)
        assert fire(Engine(conn), 1, "pay") == "paid"
        with refused("42501"):
            stranger.execute("select tasker.detach_lifecycle('shop.orders')")
        with refused("TK403"):
            stranger.execute("select tasker.record_detachment('shop.orders')")
        # somebody else's table can't be given rows by a trigger of one's own
        stranger.execute("create temporary table mine (order_id int primary key)")
        with refused("TK403"):
            stranger.execute("select tasker.record_attachment('mine', 'order_id', 'order.order', 'default', '{1}')")
        conn.execute("select tasker.detach_lifecycle('shop.orders')")
    assert log(engine, 1) == [CREATED, PAID]


# -- told to others


def test_the_change_feed_tells_of_it(orders: Engine) -> None:
    cursor = orders.one("select tasker.current_cursor()")
    fire(orders, 1, "pay", reason="cash")
    orders.run("insert into shop.orders (order_id) values (3)")
    told = [
        {
            key: change[key]
            for key in ("log", "table", "key", "namespace", "lifecycle", "from_state", "to_state", "event", "sort_key")
        }
        for change in orders.values("select change from tasker.changes_after(%s)", cursor)
    ]
    about: Row = {"log": "attached", "table": "shop.orders", "namespace": "default", "lifecycle": "order.order"}
    assert told == [
        {**about, "key": "1", "from_state": "placed", "to_state": "paid", "event": "pay", "sort_key": 2},
        {**about, "key": "3", "from_state": None, "to_state": "placed", "event": "create", "sort_key": 1},
    ]


@pytest.mark.parametrize(("mode", "expected"), [("off", 0), ("work", 0), ("tasks", 14), ("all", 14)])
def test_notifications_follow_the_namespace(orders: Engine, connect: Connect, mode: str, expected: int) -> None:
    orders.one("select tasker.set_namespace_notifications('default', %s)", mode)
    listener = connect()
    listener.execute("listen tasker_attached_state")
    orders.run("insert into shop.orders (order_id) select g from generate_series(3, 15) g")
    fire(orders, 1, "pay")
    notes = list(listener.notifies(timeout=0.5))
    assert sum(len(json.loads(note.payload)) for note in notes) == expected
    assert len(notes) == (4 if expected else 0), "13 rows in 3, and one"


def test_the_largest_notification_fits(orders: Engine) -> None:
    orders.one("select tasker.set_namespace_notifications('default', 'all')")
    schema, table = "s" * 63, "t" * 63
    orders.run(f"create schema {schema}; create table {schema}.{table} (k text primary key)")
    orders.one("select tasker.attach_lifecycle(%s, 'k', 'order.order')", f"{schema}.{table}")
    orders.run(f"insert into {schema}.{table} select repeat(chr(92), 198) || chr(64 + g) from generate_series(1, 24) g")


def test_it_is_exported_and_counted(orders: Engine) -> None:
    fire(orders, 1, "pay")
    orders.one("select tasker.prometheus_metrics()")
    lines = orders.values("select tasker.export_transitions(p_namespace => 'default')")
    assert sorted((line["table"], line["key"], line["to_state"]) for line in lines) == [
        ("shop.orders", "1", "paid"), ("shop.orders", "1", "placed"), ("shop.orders", "2", "placed"),
    ]  # fmt: skip
    counts = orders.rows("select from_state, to_state, transitions from tasker.metrics_transition_counts order by 2, 1")
    assert [tuple(row.values()) for row in counts] == [("placed", "paid", 1), (None, "placed", 2)]


def test_dump_and_restore_without_triggers_in_the_way(orders: Engine, connect: Connect) -> None:
    """All rows of a log in one statement, as a restore copies them, are taken by the checks."""
    fire(orders, 1, "pay")
    fire(orders, 1, "ship")
    with orders.conn.transaction():
        orders.run("create temporary table kept as select * from tasker.attached_transitions")
        orders.run("alter table tasker.attached_transitions disable trigger user")
        orders.run("delete from tasker.attached_transitions")
        for name in orders.values(
            "select tgname from pg_trigger where tgrelid = 'tasker.attached_transitions'::regclass and not tgisinternal"
        ):
            orders.run(f"alter table tasker.attached_transitions enable always trigger {name}")
        orders.run("insert into tasker.attached_transitions select * from kept order by random()")
    assert log(orders, 1) == [CREATED, PAID, SHIPPED]
    sound(orders)


# -- the command


def test_the_commands(engine: Engine, cli: Cli, tmp_path: Any) -> None:
    engine.one("select tasker.define_vocabulary(%s)", json.dumps(ORDER))
    engine.run(
        "create schema shop; create table shop.orders (order_id int primary key); insert into shop.orders values (1)"
    )
    cli("attach", "table", "shop.orders", "order_id", "order.order")
    assert (
        cli("attach", "fire", "shop.orders", "1", "pay", "--by", "ada", "--metadata", '{"reason": "cash"}').stdout
        == "paid\n"
    )
    refusal = cli("attach", "fire", "shop.orders", "1", "pay", expect=1)
    assert "TK409" in refusal.stderr
    (row,) = cli("--json", "attach", "list").json
    assert (row["table_name"], row["lifecycle"], row["rows"]) == ("shop.orders", "order.order", 1)
    entries = cli("--json", "attach", "log", "shop.orders", "1").json
    assert [entry["to_state"] for entry in entries] == ["placed", "paid"]
    assert entries[1]["metadata"] == {"reason": "cash", "requested_by": "ada"}
    engine.run("create function shop.ok(text) returns boolean language sql return true")
    assert cli("attach", "guard", "is_ok", "shop.ok(text)", "It is well.").stdout == "is_ok\n"
    cli("attach", "detach", "shop.orders")
    assert cli("--json", "attach", "list").json[0]["detached_at"] is not None
