"""``pgtasker attach``: lifecycles for rows of one's own tables."""

from __future__ import annotations

import json
from typing import Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import RequestId, json_object
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK

app = App(name="attach", help="Give rows of your own tables a lifecycle.", result_action="return_value")

Table = Annotated[str, Parameter(name="TABLE", help="Your table, as schema.name.")]
Key = Annotated[str, Parameter(name="KEY", help="Key of the row.")]


@app.command
def table(
    table: Table,
    key: Annotated[str, Parameter(name="KEY_COLUMN", help="The column that tells its rows apart.")],
    lifecycle: Annotated[str, Parameter(name="LIFECYCLE", help="A lifecycle of kind custom, as vocabulary.name.")],
    /,
    *,
    namespace: str = "default",
) -> int:
    """Attach a lifecycle: every row, now and later, starts in its initial state."""
    with database() as db:
        output.line(str(db.value("select tasker.attach_lifecycle(%s, %s, %s, %s)", (table, key, lifecycle, namespace))))
    return OK


@app.command
def fire(
    table: Table,
    key: Key,
    event: Annotated[str, Parameter(name="EVENT", help="What happened.")],
    /,
    *,
    metadata: Annotated[str | None, Parameter(help="JSON object, or @FILE.")] = None,
    by: Annotated[str | None, Parameter(help="Who asks.")] = None,
    request_id: RequestId = None,
) -> int:
    """Move a row by an event and print its new state."""
    with database() as db:
        output.line(
            str(
                db.value(
                    "select tasker.fire(%s, %s, %s, %s::jsonb, %s, %s)",
                    (table, key, event, json.dumps(json_object(metadata, "--metadata")), by, request_id),
                )
            )
        )
    return OK


@app.command(name="list")
def list_() -> int:
    """List the tables that have a lifecycle, or had one."""
    with database() as db:
        rows = db.rows(
            """
            select a.table_name, a.key_column, a.lifecycle, a.namespace, a.attached_at, a.attached_by, a.detached_at,
                   (select count(*) from tasker.attached_transitions t
                     where t.attachment_uuid = a.attachment_uuid and t.most_recent) as rows
              from tasker.attached_lifecycles a
             order by a.attached_at
            """
        )
    output.emit_rows(rows, ("table_name", "key_column", "lifecycle", "namespace", "rows", "attached_at", "detached_at"))
    return OK


@app.command
def log(table: Table, key: Key, /) -> int:
    """Print the log of a row, oldest first; it stays when the row is deleted or the table detached."""
    with database() as db:
        rows = db.rows(
            """
            select t.created_at, t.from_state, t.event, t.to_state, t.login, t.metadata
              from tasker.attached_transitions t
              join tasker.attached_lifecycles a on a.attachment_uuid = t.attachment_uuid
             where a.table_name = %s and t.entity_key = %s
             order by t.created_at, t.sort_key
            """,
            (table, key),
        )
    output.emit_rows(rows, ("created_at", "from_state", "event", "to_state", "login", "metadata"))
    return OK


@app.command
def detach(table: Table, /) -> int:
    """Take the lifecycle off a table; its log stays."""
    with database() as db:
        db.value("select tasker.detach_lifecycle(%s)", (table,))
    output.talk(f"{table} is detached")
    return OK


@app.command
def guard(
    name: Annotated[str, Parameter(name="NAME", help="Name used in lifecycles.")],
    function: Annotated[str, Parameter(name="FUNCTION", help="As schema.name(text), returning boolean.")],
    description: Annotated[str, Parameter(name="DESCRIPTION", help="What must be true, in words.")],
    /,
) -> int:
    """Make a function of your own a guard: it takes the key of a row."""
    with database() as db:
        output.line(str(db.value("select tasker.register_guard(%s, %s, %s)", (name, function, description))))
    return OK
