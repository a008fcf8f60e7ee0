"""``pgtasker lifecycle``: the state machines, from the rows that the engine itself reads."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, CommandError
from pgtasker.cli._settings import settings

app = App(name="lifecycle", help="Print the state machines, drawn from their rows.", result_action="return_value")
app.command("pgtasker.cli.export:export_rules", name="export", help="Print the definitions of vocabularies as JSON.")


@app.command(name="list")
def list_() -> int:
    """List the lifecycles of all vocabularies."""
    with database() as db:
        rows = db.rows(
            """
            select l.lifecycle, l.vocabulary, l.kind, l.initial_state, l.description,
                   (select count(*) from tasker.lifecycle_states s where s.lifecycle = l.lifecycle) as states,
                   (select count(*) from tasker.lifecycle_transitions t where t.lifecycle = l.lifecycle) as transitions
              from tasker.lifecycles l
             order by l.lifecycle
            """
        )
    output.emit_rows(rows, ("lifecycle", "vocabulary", "kind", "initial_state", "states", "transitions", "description"))
    return OK


@app.command
def show(
    name: Annotated[str, Parameter(name="NAME", help="Such as tasker.workflow_step.")],
    /,
    *,
    format_: Annotated[Literal["table", "mermaid", "dot"], Parameter(name="--format")] = "table",
) -> int:
    """Print one lifecycle: a table or a diagram (mermaid, Graphviz dot); with --json its states and transitions."""
    with database() as db:
        lifecycle = db.row("select * from tasker.lifecycles where lifecycle = %s", (name,))
        if lifecycle is None:
            raise CommandError(f"there is no lifecycle {name}", hint="list them: pgtasker lifecycle list")
        if settings.json:
            states = db.rows("select * from tasker.lifecycle_states where lifecycle = %s order by ordinal", (name,))
            transitions = db.rows(
                """
                select t.* from tasker.lifecycle_transitions t
                  join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.from_state
                 where t.lifecycle = %s order by s.ordinal, t.ordinal, t.event
                """,
                (name,),
            )
            output.emit_json({"lifecycle": lifecycle, "states": states, "transitions": transitions})
        else:
            output.line(db.client.lifecycle_diagram(name, format_))
    return OK
