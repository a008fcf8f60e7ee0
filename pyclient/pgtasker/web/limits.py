"""What holds for every request: how large it may be, and the headers of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1024 * 1024


class Limits:
    """Middleware: stops reading a body beyond a number of bytes (413), and sets headers on every answer.

    No library for Starlette does the first: what counts is what comes, whatever Content-Length says.

    Args:
        app: what it stands before.
        headers: set on answers that do not have them.
        max_body_bytes: the limit.
    """

    def __init__(self, app: ASGIApp, headers: Mapping[str, str], max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.app = app
        self.headers = dict(headers)
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        left = self.max_body_bytes

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, f"a request has at most {self.max_body_bytes} bytes")
            return message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, counted, with_headers)
