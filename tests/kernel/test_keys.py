"""Keys: what is made in series is as good a UUIDv7 as what is made one by one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from tests.conftest import Connect

LAST = 16**6 - 1
"""The last position of a series."""


def test_a_series_has_uuids_of_version_7_that_sort_by_position(conn: psycopg.Connection[Any]) -> None:
    positions = [0, 1, 2, 15, 16, 255, 256, LAST]
    rows = conn.execute(
        "select tasker.uuid_at(s.series, p) from (select tasker.uuid_series() as series) s, unnest(%s::bigint[]) p"
        " order by p",
        [positions],
    ).fetchall()
    keys = [key for (key,) in rows]
    assert [(key.version, key.variant) for key in keys] == [(7, UUID(int=0, version=4).variant)] * len(positions)
    assert sorted(set(keys)) == keys
    assert len({key.int >> 24 for key in keys}) == 1  # the rest counts


def test_series_of_many_sessions_share_nothing(connect: Connect) -> None:
    sessions = [connect() for _ in range(4)]
    made = [
        key
        for session in sessions
        for (key,) in session.execute("select tasker.uuid_series() from generate_series(1, 2000)").fetchall()
    ]
    assert len(set(made)) == len(made)


def test_later_keys_of_a_session_sort_later(conn: psycopg.Connection[Any]) -> None:
    """Readers who page by key see what is newer behind what is older."""
    conn.execute(
        "select tasker.register_template(%s)", [Jsonb({"name": "one", "steps": [{"name": "a"}, {"name": "b"}]})]
    )
    made = [
        [key for (key,) in conn.execute("select tasker.create_tasks(%s)", [Jsonb([{"name": "one"}] * 50)]).fetchall()]
        for _ in range(5)
    ]
    assert [key for keys in made for key in keys] == sorted(key for keys in made for key in keys)
    per_log = conn.execute(
        "select count(*), count(distinct key) from (select task_transition_uuid as key from tasker.task_transitions"
        " union all select workflow_step_transition_uuid from tasker.workflow_step_transitions"
        " union all select workflow_step_uuid from tasker.workflow_steps) k"
    ).fetchone()
    assert per_log is not None
    assert per_log[0] == per_log[1]
