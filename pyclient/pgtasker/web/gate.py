"""Who calls: bearer tokens, and the database login and role that each stands for.

A token is a random text of 256 bits; the file keeps its SHA-256, so that whoever reads the file cannot call. What the
caller may do is decided by the database: its role is set when a connection is made, and namespaces are those to which
its login is bound (``tasker.bind_login``). Each token has connections of its own, whose ``application_name`` names it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgtasker import AsyncClient
from pgtasker._connect import resolve_dsn

if TYPE_CHECKING:
    from collections.abc import Iterable

ROLES = ("tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class TokenFileError(Exception):
    """The file of tokens cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Token:
    """One entry of the file.

    Attributes:
        name: who calls; kept in the log as who asked.
        sha256: of the token, in hexadecimal.
        role: what the caller's sessions may do: one of the roles of docs, such as ``tasker_client``.
        login: the database login of the sessions; None: that of the server's own connection string. It must be a
            member of ``role``; a login bound to namespaces (``tasker.bind_login``) sees nothing else.
        expires_at: from then on it is refused; None: never.
    """

    name: str
    sha256: str
    role: str
    login: str | None = None
    expires_at: dt.datetime | None = None


def new_token(name: str, role: str, login: str | None = None) -> tuple[str, Token]:
    """Return a fresh token, which is kept nowhere, and its entry."""
    text = secrets.token_urlsafe(32)
    return text, Token(name, digest_of(text), role, login)


def digest_of(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal. Tokens are random, so no slow hash is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_tokens(path: Path) -> list[Token]:
    """Return the entries of a TOML file: one table ``[[token]]`` for each.

    Raises TokenFileError with what is wrong.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("token", [])
    except OSError as error:
        raise TokenFileError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TokenFileError(f"{path}: {error}") from None
    if not isinstance(entries, list):
        raise TokenFileError(f"{path}: write one [[token]] for each token")
    tokens = [_token(f"{path}: token {number}", entry) for number, entry in enumerate(entries, 1)]
    for field in ("name", "sha256"):
        values = [getattr(token, field) for token in tokens]
        if len(set(values)) < len(values):
            raise TokenFileError(f"{path}: two tokens have the same {field}")
    return tokens


def _token(where: str, entry: Any) -> Token:
    try:
        token = Token(**entry)
    except TypeError:
        raise TokenFileError(f"{where}: it has name, sha256, role, and may have login and expires_at") from None
    if not isinstance(token.name, str) or not _NAME.fullmatch(token.name):
        raise TokenFileError(f"{where}: a name has 1 to 63 letters, digits, underscores, dots and hyphens")
    if not isinstance(token.sha256, str) or not _DIGEST.fullmatch(token.sha256):
        raise TokenFileError(f"{where}: sha256 has 64 hexadecimal digits; pgtasker api token makes one")
    if token.role not in ROLES:
        raise TokenFileError(f"{where}: role is one of {', '.join(ROLES)}")
    if token.login is not None and not isinstance(token.login, str):
        raise TokenFileError(f"{where}: login is the name of a database login")
    if token.expires_at is not None and (
        not isinstance(token.expires_at, dt.datetime) or token.expires_at.tzinfo is None
    ):
        raise TokenFileError(f"{where}: expires_at is a moment with its time zone, such as 2030-01-01T00:00:00Z")
    return token


class Gate:
    """Finds the caller of a token, and the client whose sessions act as that caller.

    Args:
        dsn: the server; None as in ``pgtasker.Client``.
        tokens: entries, or the path of a file that is read again when it changes: taking an entry out ends the token.
        read_only: sessions refuse to write, whoever asks.
        application_name: first part of the sessions' name; the second is that of the token.
        statement_timeout: seconds after which the server ends a statement.
        max_size: connections for each token.
    """

    def __init__(
        self,
        dsn: str | None,
        tokens: Path | Iterable[Token],
        *,
        read_only: bool = False,
        application_name: str = "pgtasker-api",
        statement_timeout: float = 30.0,
        max_size: int = 8,
    ) -> None:
        self._dsn = resolve_dsn(dsn)
        self._application_name = application_name
        self._settings = {"statement_timeout": f"{round(statement_timeout * 1000)}"}
        self._read_only = read_only
        if read_only:
            self._settings["default_transaction_read_only"] = "on"
        self._max_size = max_size
        self._clients: dict[Token, AsyncClient] = {}
        self._path: Path | None = None
        self._read_at: tuple[int, int] | None = None
        self._tokens: dict[str, Token] = {}
        if isinstance(tokens, Path):
            self._path = tokens
            self._read()
        else:
            self._tokens = {token.sha256: token for token in tokens}

    def caller(self, token: str | None) -> Token | None:
        """Return the entry of a token, None for one that is unknown or over."""
        if token is None:
            return None
        self._read()
        # Looked up by digest: how long that takes tells nothing about the token.
        found = self._tokens.get(digest_of(token))
        if found is None or (found.expires_at is not None and found.expires_at <= dt.datetime.now(dt.UTC)):
            return None
        return found

    def client(self, caller: Token) -> AsyncClient:
        """Return the client of a caller; it connects at its first call."""
        if caller not in self._clients:
            self._clients[caller] = AsyncClient(
                self._conninfo(caller),
                min_size=0,
                max_size=self._max_size,
                application_name=f"{self._application_name} {caller.name}",
            )
        return self._clients[caller]

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    def _conninfo(self, caller: Token) -> str:
        wanted = [f"-c {name}={value}" for name, value in {**self._settings, "role": caller.role}.items()]
        given = conninfo_to_dict(self._dsn)
        changed = {"options": " ".join([str(given.get("options") or ""), *wanted]).strip()}
        if caller.login:
            changed["user"] = caller.login
        if self._read_only:
            # the client would look for a session that may write
            changed["target_session_attrs"] = str(given.get("target_session_attrs", "any"))
        return make_conninfo(self._dsn, **changed)

    def _read(self) -> None:
        if self._path is None:
            return
        try:
            stat = self._path.stat()
            if self._read_at != (stat.st_mtime_ns, stat.st_ino):
                self._tokens = {token.sha256: token for token in read_tokens(self._path)}
                self._read_at = (stat.st_mtime_ns, stat.st_ino)
        except OSError as error:
            raise TokenFileError(f"{self._path}: {error.strerror}") from None
