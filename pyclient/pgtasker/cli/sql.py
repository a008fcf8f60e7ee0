"""``pgtasker sql``: the functions that any language calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, CommandError
from pgtasker.cli._settings import settings

app = App(name="sql", help="The functions that any language calls.", result_action="return_value")


@app.command
def api(
    name: Annotated[str | None, Parameter(name="NAME", help="Only this function.")] = None,
    /,
    *,
    format_: Annotated[
        Literal["markdown", "json"], Parameter(name="--format", help="For people, or for code generators.")
    ] = "markdown",
    role: Annotated[str | None, Parameter(help="Only what this role may call.")] = None,
) -> int:
    """Print every public function: arguments with types and defaults, what it returns, who may call it, its comment."""
    with database() as db:
        functions = db.rows(
            "select * from tasker.public_functions where (%s::text is null or name = %s)"
            " and (%s::text is null or %s = any (roles)) order by name, arguments",
            (name, name, role, role),
        )
    if not functions:
        raise CommandError("there is no such function", hint="list them all: pgtasker sql api")
    if settings.json or format_ == "json":
        output.emit_json(functions)
        return OK
    for function in functions:
        output.line(_markdown(function))
    return OK


def _markdown(function: dict[str, Any]) -> str:
    arguments = [
        f"  {argument['name']} {argument['type']}" + (f" default {argument['default']}" if argument["default"] else "")
        for argument in function["arguments"]
    ]
    columns = [f"  {column['name']} {column['type']}" for column in function["columns"]]
    returns = ("setof " if function["returns_set"] else "") + function["returns"]
    signature = [f"tasker.{function['name']}(", ",\n".join(arguments), f") returns {returns}"]
    if columns:
        signature[-1] += " ("
        signature += [",\n".join(columns), ")"]
    return "\n".join([
        f"### {function['name']}", "", function["description"] or "", "",
        "```sql", *(part for part in signature if part), "```", "",
        f"{function['volatility'].capitalize()}. May be called by {', '.join(function['roles'])}.", "",
    ])  # fmt: skip
