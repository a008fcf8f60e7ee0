"""``pgtasker metrics serve``: the database's text for Prometheus over HTTP.

The standard library's server: the text is made by ``tasker.prometheus_metrics()``, so there is nothing for a metrics
library to collect.
"""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

import psycopg
from cyclopts import Parameter
from psycopg_pool import ConnectionPool

from pgtasker.cli import _output as output
from pgtasker.cli._database import APPLICATION_NAME, database
from pgtasker.cli._errors import OK, CommandError

Pool = ConnectionPool[psycopg.Connection[Any]]

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_PLAIN = "text/plain; charset=utf-8"


def serve(
    *,
    host: Annotated[str, Parameter(help="Address to listen on; 0.0.0.0: all.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port to listen on; 0: one that is free.")] = 9188,
    timeout: Annotated[float, Parameter(help="Seconds that a scrape waits for the database.")] = 10.0,
) -> int:
    """Serve GET /metrics until it is interrupted; a member of tasker_monitor is enough as login.

    /healthy answers as long as the process lives. Where the database does not answer, a scrape gets 503 and the next
    one tries again.
    """
    from pgtasker._connect import connection_options, connection_string

    with database() as db:  # a wrong address is told now, not at the first scrape
        dsn = db.dsn
    conninfo = connection_string(dsn, f"{APPLICATION_NAME} metrics")
    options: dict[str, Any] = connection_options(pgbouncer=True, prepare_threshold=None)
    pool = ConnectionPool(
        conninfo,
        kwargs=options,
        min_size=1,
        max_size=2,  # two scrapes at once don't wait for each other
        timeout=timeout,
        check=ConnectionPool.check_connection,
        open=False,
    )
    try:
        server = ThreadingHTTPServer((host, port), _handler(pool))
    except OSError as error:
        raise CommandError(f"can't listen on {host}:{port}: {error.strerror}", hint="choose another --port") from None
    with pool, server:
        output.talk(f"serving http://{host}:{server.server_port}/metrics")
        server.serve_forever()
    return OK


def _handler(pool: Pool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "pgtasker"
        sys_version = ""
        timeout = 30  # a caller that says nothing does not keep its thread

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/healthy":
                self._answer(HTTPStatus.OK, _PLAIN, "alive\n")
            elif path != "/metrics":
                self._answer(HTTPStatus.NOT_FOUND, _PLAIN, "see /metrics\n")
            else:
                try:
                    text = _scrape(pool)
                except psycopg.Error as error:
                    message = (error.diag.message_primary or str(error)).splitlines()[0]
                    output.talk(f"error: {message}", style="red")
                    self._answer(HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, message + "\n")
                else:
                    self._answer(HTTPStatus.OK, _PROMETHEUS, text)

        do_HEAD = do_GET

        def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """A line for each scrape is no news."""

    return Handler


def _scrape(pool: Pool) -> str:
    with pool.connection() as connection:
        row = connection.execute("select tasker.prometheus_metrics()").fetchone()
    if row is None:
        raise psycopg.InternalError("no answer")
    return str(row[0])
