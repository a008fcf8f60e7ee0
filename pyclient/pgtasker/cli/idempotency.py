"""``pgtasker idempotency``: stored answers to requests that carried a request id."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK

app = App(name="idempotency", help="Stored answers to request ids.", result_action="return_value")


@app.command(name="list")
def list_(*, limit: Annotated[int, Parameter(help="Most rows.")] = 50) -> int:
    """List the request ids that have a stored answer, the newest first, and how often it was given again."""
    with database() as db:
        rows = db.rows(
            """
            select request_id, endpoint, response_status, hits, created_at, expires_at, response_body, request_hash
              from tasker.idempotency_keys order by created_at desc, request_id limit %s
            """,
            (limit,),
        )
        totals = db.row(
            "select count(*)::int as keys, coalesce(sum(hits), 0)::int as hits from tasker.idempotency_keys"
        )
    output.emit_rows(
        rows, ("request_id", "endpoint", "response_status", "hits", "created_at", "expires_at"), empty="no request id"
    )
    if rows and totals is not None:
        requests = totals["keys"] + totals["hits"]
        output.talk(f"{totals['hits']} of {requests} requests ({totals['hits'] / requests:.0%}) got a stored answer")
    return OK


@app.command
def purge(*, limit: Annotated[int, Parameter(help="Most to remove.")] = 10000) -> int:
    """Remove answers that are older than their time to live, and say how many. ``tick`` does it too."""
    with database() as db:
        purged = db.client.purge_expired(limit)
    output.answer({"purged": purged}, str(purged))
    return OK
