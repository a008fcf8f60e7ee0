"""``pgtasker migrate``: install or upgrade the schema."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

from cyclopts import Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import server_dsn, with_timeout
from pgtasker.cli._errors import OK, usage_error
from pgtasker.cli._settings import settings


def migrate(
    *,
    to: Annotated[
        str, Parameter(help="Revision of the tables to stop at; 'head' includes all functions and views.")
    ] = "head",
    sql: Annotated[
        bool, Parameter(negative="", help="Only print the SQL script, for psql: for an empty database, or see --from.")
    ] = False,
    again: Annotated[
        bool, Parameter(negative="", help="Apply functions, views, triggers and grants even if they seem to be there.")
    ] = False,
    since: Annotated[
        str | None,
        Parameter(name="--from", help="With --sql: the revision at which the database is (tasker.alembic_version)."),
    ] = None,
) -> int:
    """Install or upgrade the schema in one transaction. A second run finds nothing to do.

    The script of --sql needs no Python where it is run: psql -1 -v ON_ERROR_STOP=1 -f FILE
    """
    from pgtasker import migrate as migrations

    if again and to != "head":
        raise usage_error("--again applies what belongs to the newest tables; it takes no --to")
    if sql:
        if to != "head" or again:
            raise usage_error("--sql prints the newest schema; it takes no --to and no --again")
        sys.stdout.write(migrations.offline_sql(since))
        return OK
    if since is not None:
        raise usage_error("--from belongs to --sql; without it the database says itself where it is")
    done = migrations.upgrade(with_timeout(server_dsn(migrated=False)), to, again=again)
    if settings.json:
        output.emit_json(dataclasses.asdict(done))
    elif done.before == done.after and not done.tree_applied:
        output.talk(f"nothing to do: the schema is at {done.after}")
    else:
        output.talk(
            f"schema tasker: {done.before or 'nothing'} -> {done.after}"
            + (", functions and views applied" if done.tree_applied else "")
        )
    return OK
