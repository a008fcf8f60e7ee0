"""``pgtasker export`` and ``pgtasker lifecycle export``: transitions as JSON lines, rules as JSON."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, CommandError

_EXPORT = """
copy (select tasker.export_transitions(%(since)s::timestamptz, %(until)s::timestamptz, %(namespace)s)::text) to stdout
"""


def export(
    *,
    since: Annotated[str | None, Parameter(help="Transitions after this time (ISO 8601).")] = None,
    until: Annotated[str | None, Parameter(help="And up to this time.")] = None,
    namespace: Annotated[str | None, Parameter(help="Only this namespace; leaves out workers and breakers.")] = None,
) -> int:
    """Print every transition as one JSON object a line, in the event schema of seed 000, entity by entity."""
    exported = 0
    write = sys.stdout.write
    period = {"since": since, "until": until, "namespace": namespace}
    # Rows of a COPY come as they are made: neither side keeps them. Typed, since its text format doubles backslashes.
    with database() as db, db.connection.cursor() as cursor, cursor.copy(_EXPORT, period) as copy:
        copy.set_types(["text"])
        for (line,) in copy.rows():
            write(line + "\n")
            exported += 1
    sys.stdout.flush()
    output.talk(f"{exported:,} transitions")
    return OK


def export_rules(
    *vocabularies: Annotated[str, Parameter(name="VOCABULARY", help="Only these; all if left out.")],
    format_: Annotated[Literal["json"], Parameter(name="--format")] = "json",
) -> int:
    """Print the definitions of vocabularies: the rules that validate-transitions takes with --rules."""
    with database() as db:
        rows = db.rows("select vocabulary, definition from tasker.vocabularies order by vocabulary")
    unknown = set(vocabularies) - {row["vocabulary"] for row in rows}
    if unknown:
        raise CommandError(
            f"there is no vocabulary {', '.join(sorted(unknown))}", hint="list them: pgtasker lifecycle list"
        )
    output.emit_json([row["definition"] for row in rows if not vocabularies or row["vocabulary"] in vocabularies])
    return OK
