"""What ``pgtasker api`` and ``pgtasker dashboard`` share: the extra they need, who is let in, and serving."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from pgtasker.cli._errors import OK, CommandError, usage_error
from pgtasker.cli._output import talk

if TYPE_CHECKING:
    from pgtasker.web.gate import Token

Host = Annotated[str, Parameter(help="Address to listen on; the default is reached from this machine only.")]
TokensFile = Annotated[
    Path | None,
    Parameter(name="--tokens", help="File of tokens (docs/http.md); without one, a token for this run is printed."),
]


def demand_extra() -> None:
    """Raise CommandError where the libraries of the extra are not installed."""
    try:
        import fastapi  # noqa: F401
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise CommandError(
            f"this command needs the extra web: {error.name} is not installed",
            hint="install it: pip install 'pgtasker[web]'",
        ) from None


def entries(path: Path | None, role: str) -> tuple[Path | list[Token], str | None]:
    """Who is let in: the file, or one fresh token, which is returned as well.

    Raises CommandError (wrong usage) for a file that cannot be used.
    """
    from pgtasker.web.gate import TokenFileError, new_token, read_tokens

    if path is None:
        text, token = new_token("local", role)
        return [token], text
    try:
        read_tokens(path)
    except TokenFileError as error:
        raise usage_error(str(error)) from None
    return path, None


def serve(app: Any, host: str, port: int, *says: str) -> int:
    """Serve an application until the process is told to stop. ``{address}`` in what it says is where."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            for server in self.servers:
                where = server.sockets[0].getsockname()
                name = f"[{where[0]}]" if ":" in where[0] else where[0]
                for line in says:
                    talk(line.format(address=f"http://{name}:{where[1]}"))
            sys.stderr.flush()

    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", server_header=False, timeout_graceful_shutdown=5
    )
    server = Server(config)
    try:
        server.run()
    except SystemExit:  # uvicorn has said why
        raise CommandError(f"cannot listen on {host}:{port}", hint="choose another --port") from None
    except KeyboardInterrupt:
        pass
    return OK
