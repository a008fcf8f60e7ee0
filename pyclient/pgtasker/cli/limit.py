"""``pgtasker limit``: how many steps run at once, and how many start in a time."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import RequestId
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK

app = App(
    name="limit", help="Look at limits of tools, namespaces and templates, and set them.", result_action="return_value"
)

Scope = Annotated[
    Literal["tool", "namespace", "template"],
    Parameter(name="SCOPE", help="What is limited: tool, namespace or template."),
]
Name = Annotated[str, Parameter(name="NAME", help="Which tool, namespace or template.")]
Namespace = Annotated[
    str | None,
    Parameter(
        help="Namespace of the template (default: default), or whose steps of a tool are counted (all if left out)."
    ),
]


@app.command(name="list")
def list_() -> int:
    """List the limits with what they have given away and who waits."""
    with database() as db:
        rows = db.rows("select * from tasker.limit_overview order by scope, name, namespace")
    columns = (
        "scope",
        "name",
        "namespace",
        "concurrency",
        "running",
        "rate",
        "per",
        "started",
        "waiting",
        "next_start_at",
    )
    output.emit_rows(rows, columns, empty="no limit: pgtasker limit set tool TOOL --concurrency 4")
    return OK


@app.command(name="set")
def set_(
    scope: Scope,
    name: Name,
    /,
    *,
    concurrency: Annotated[int | None, Parameter(help="So many run at once.")] = None,
    rate: Annotated[int | None, Parameter(help="So many start in any stretch of time as long as --per.")] = None,
    per: Annotated[float, Parameter(help="Seconds.")] = 1.0,
    namespace: Namespace = None,
    request_id: RequestId = None,
) -> int:
    """Set a limit, or all of one that there is; steps that run go on, those beyond wait in line."""
    with database() as db:
        limit = db.client.set_limit(scope, name, concurrency, rate, per, namespace, request_id=request_id)
    said = [f"{concurrency} at once"] if concurrency is not None else []
    said += [f"{rate} in {per:g} s"] if rate is not None else []
    output.answer({"limit_uuid": limit, "scope": scope, "name": name}, f"{scope} {name}: {', '.join(said)}")
    return OK


@app.command
def remove(scope: Scope, name: Name, /, *, namespace: Namespace = None, request_id: RequestId = None) -> int:
    """Take a limit away; what waits for it is queued."""
    with database() as db:
        db.client.remove_limit(scope, name, namespace, request_id=request_id)
    output.answer({"scope": scope, "name": name}, f"{scope} {name}: no limit")
    return OK
