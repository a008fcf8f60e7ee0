"""``pgtasker dashboard``: the web page."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from cyclopts import Parameter

from pgtasker.cli._database import server_dsn
from pgtasker.cli._web import Host, TokensFile, demand_extra, entries, serve


def dashboard(
    *,
    host: Host = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port; 0 takes a free one.")] = 8030,
    tokens: TokensFile = None,
    actions: Annotated[
        bool,
        Parameter(negative="", help="Let people act: retry, resolve, cancel, pause, reset."),
    ] = False,
) -> int:
    """Serve a web page with what goes on, until it is stopped."""
    demand_extra()
    from pgtasker.web.dashboard import create_app
    from pgtasker.web.gate import Gate

    known, text = entries(tokens, "tasker_operator")
    dsn = server_dsn()
    gate = Gate(dsn, known, read_only=True, application_name="pgtasker-dashboard")
    acting = Gate(dsn, known, application_name="pgtasker-dashboard") if actions else None
    where = "{address}/"
    if text is not None:
        where = f"{{address}}/sign-in?{urlencode({'token': text})}"
    return serve(create_app(gate, acting), host, port, f"the dashboard is at {where}")
