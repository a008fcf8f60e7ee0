"""``pgtasker api``: the HTTP API."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import server_dsn
from pgtasker.cli._errors import OK
from pgtasker.cli._settings import settings
from pgtasker.cli._web import Host, TokensFile, demand_extra, entries, serve

app = App(name="api", help="Serve the HTTP API, and make tokens for it.", result_action="return_value")

Role = Literal["client", "worker", "operator", "auditor", "monitor"]


@app.default
def api(
    *,
    host: Host = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port; 0 takes a free one.")] = 8020,
    tokens: TokensFile = None,
    role: Annotated[Role, Parameter(help="Role of the token that is printed where there is no file.")] = "operator",
    with_dashboard: Annotated[
        bool, Parameter(negative="", help="Serve the dashboard below /dashboard as well; it only shows.")
    ] = False,
    max_body: Annotated[int, Parameter(help="Largest request, in bytes.")] = 1024 * 1024,
    timeout: Annotated[float, Parameter(help="Seconds after which a statement is ended.")] = 30.0,
) -> int:
    """Serve the HTTP API until it is stopped."""
    demand_extra()
    from pgtasker.web import dashboard
    from pgtasker.web.api import create_app
    from pgtasker.web.gate import Gate

    known, text = entries(tokens, f"tasker_{role}")
    dsn = server_dsn()
    gate = Gate(dsn, known, statement_timeout=timeout)
    beside = None
    says = ["the API is at {address}, its description at {address}/openapi.json"]
    if with_dashboard:
        beside = dashboard.create_app(Gate(dsn, known, read_only=True, application_name="pgtasker-dashboard"))
        says.append("the dashboard is at {address}/dashboard/")
    if text is not None:
        says.append(f"token of this run, with the rights of tasker_{role}: {text}")
    return serve(create_app(gate, max_body_bytes=max_body, with_dashboard=beside), host, port, *says)


@app.command
def token(
    name: Annotated[str, Parameter(help="Who it is for; the log keeps it.")],
    /,
    *,
    role: Annotated[Role, Parameter(help="What it may do.")],
    login: Annotated[
        str | None, Parameter(help="Database login of its sessions; bind it to namespaces to make it a tenant.")
    ] = None,
) -> int:
    """Make a token: print it once, and the entry for the file of tokens, which does not hold it."""
    demand_extra()
    from pgtasker.web.gate import new_token

    text, made = new_token(name, f"tasker_{role}", login)
    if settings.json:
        output.emit_json({"token": text, "name": name, "sha256": made.sha256, "role": made.role, "login": login})
        return OK
    output.talk(f"token, shown once: {text}")
    output.line("[[token]]")
    output.line(f'name = "{made.name}"')
    output.line(f'sha256 = "{made.sha256}"')
    output.line(f'role = "{made.role}"')
    if login is not None:
        output.line(f'login = "{login}"')
    return OK
