"""The launcher of the embedded server: who starts, who stops, what it leaves behind and what it refuses."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtasker import server as server_module
from pgtasker.server import EmbeddedServer, ServerError, configured_dsn, default_data_dir, default_dsn

FAST = {"fsync": "off", "dynamic_shared_memory_type": "mmap", "shared_buffers": "16MB", "max_connections": "20"}
as_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else to run a server")


@pytest.fixture(scope="module")
def initialised(server_folder: Path) -> Iterator[Path]:
    """A server folder with an empty cluster, to be copied."""
    folder = server_folder / "initialised"
    with EmbeddedServer(folder, settings=FAST):
        pass
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folder(initialised: Path, server_folder: Path) -> Iterator[Path]:
    """A server folder of its own for a test; a server left in it is stopped."""
    parent = Path(tempfile.mkdtemp(dir=server_folder))
    parent.chmod(0o711)
    copy = parent / "server"
    subprocess.run(["cp", "-a", initialised, copy], check=True)
    yield copy
    EmbeddedServer(copy).stop("immediate")
    shutil.rmtree(parent)


def answers(server: EmbeddedServer) -> bool:
    try:
        psycopg.connect(server.uri(), connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def open_elsewhere(folder: Path, then: str) -> subprocess.Popen[str]:
    """Another process that opens the same folder; says `ready` once it is in."""
    program = f"""
import sys
from pgtasker.server import EmbeddedServer
server = EmbeddedServer({str(folder)!r}, settings={FAST!r})
{then}
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


STAY_INSIDE = "with server:\n    print('ready', flush=True)\n    sys.stdin.readline()"


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


def test_the_last_one_out_stops_the_server(folder: Path) -> None:
    other = open_elsewhere(folder, STAY_INSIDE)
    with EmbeddedServer(folder) as server:
        leave(other)
        assert answers(server)
    assert not answers(server)


def test_leaving_does_not_stop_the_server_under_another(folder: Path) -> None:
    with EmbeddedServer(folder, settings=FAST) as server:
        other = open_elsewhere(folder, STAY_INSIDE)
    assert answers(server)
    leave(other)
    assert not answers(server)


def test_a_started_server_stays_until_it_is_stopped(folder: Path) -> None:
    server = EmbeddedServer(folder, settings=FAST).start()
    with EmbeddedServer(folder):
        pass
    assert answers(server)
    assert server.status().running
    EmbeddedServer(folder).stop()
    assert not answers(server)
    assert not server.status().running
    server.stop()  # nothing to do is no error


def test_a_killed_opener_leaves_a_server_to_attach_to(folder: Path) -> None:
    other = open_elsewhere(folder, STAY_INSIDE)
    pid = EmbeddedServer(folder).status().pid
    other.kill()
    other.communicate()
    with EmbeddedServer(folder) as server:
        assert server.status().pid == pid
    assert not answers(server)


def test_two_processes_opening_at_once_share_one_server(folder: Path) -> None:
    program = f"""
from pgtasker.server import EmbeddedServer
print(EmbeddedServer({str(folder)!r}, settings={FAST!r}).start().status().pid)
"""
    openers = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    pids = {opener.communicate(timeout=120)[0] for opener in openers}
    assert len(pids) == 1
    assert all(opener.returncode == 0 for opener in openers)


def test_first_start_of_two_processes_at_once(server_folder: Path) -> None:
    new = server_folder / "raced"
    program = f"""
from pgtasker.server import EmbeddedServer
server = EmbeddedServer({str(new)!r}, settings={FAST!r})
with server:
    print(server.ensure_database("d"))
"""
    openers = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for opener in openers:
        opener.communicate(timeout=120)
    assert [opener.returncode for opener in openers] == [0, 0, 0]
    assert not answers(EmbeddedServer(new))
    shutil.rmtree(new)


def test_recovers_after_the_server_was_killed(folder: Path) -> None:
    server = EmbeddedServer(folder, settings=FAST).start()
    with psycopg.connect(server.uri(), autocommit=True) as connection:
        connection.execute("create table kept (x int)")
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with psycopg.connect(server.start().uri()) as connection:
        assert connection.execute("select count(*) from kept").fetchone() == (0,)


def test_a_pid_file_that_names_another_process_is_ignored(folder: Path) -> None:
    """After a restart of the machine the number belongs to something else of the same user."""
    server = EmbeddedServer(folder, settings=FAST)
    account = server_module._server_account()
    stranger = subprocess.Popen(["sleep", "60"], user=account.uid if account.switch else None)
    try:
        pid_file = folder / "pgdata" / "postmaster.pid"
        pid_file.write_text(f"{stranger.pid}\n{folder}/pgdata\n1\n5432\n{server.socket_dir}\n\n")
        if account.switch:
            os.chown(pid_file, account.uid, account.gid)
        assert not server.status().running
        with server:
            assert answers(server)
    finally:
        stranger.kill()
        stranger.wait()


def test_an_interrupted_initdb_is_done_again(folder: Path) -> None:
    (folder / "pgdata").rename(folder / "pgdata.new")
    with EmbeddedServer(folder, settings=FAST) as server:
        assert answers(server)
    assert not (folder / "pgdata.new").exists()


def test_settings_reach_the_server_and_default_to_durable(folder: Path) -> None:
    with (
        EmbeddedServer(folder, settings={"work_mem": "7MB", "cluster_name": "it's \\ odd"}) as server,
        psycopg.connect(server.uri()) as connection,
    ):
        shown = {
            name: connection.execute("select current_setting(%s)", [name]).fetchone()
            for name in ("work_mem", "cluster_name", "fsync", "listen_addresses", "max_connections")
        }
    assert shown == {
        "work_mem": ("7MB",),
        "cluster_name": ("it's \\ odd",),
        "fsync": ("on",),
        "listen_addresses": ("",),
        "max_connections": ("200",),
    }


@pytest.mark.parametrize("settings", [{"work_mem": "1MB'\nfsync = off"}, {"a b": "1"}])
def test_a_setting_can_not_smuggle_in_another(folder: Path, settings: dict[str, str]) -> None:
    with pytest.raises(ServerError, match="not a server setting"):
        EmbeddedServer(folder, settings=settings).start()


def test_a_wrong_setting_is_told_with_the_log(folder: Path) -> None:
    with pytest.raises(ServerError, match="no_such_setting"):
        EmbeddedServer(folder, settings={"no_such_setting": "1"}).start()


def test_data_of_another_major_version_is_refused(folder: Path) -> None:
    (folder / "pgdata" / "PG_VERSION").write_text("16\n")
    with pytest.raises(ServerError, match=r"PostgreSQL 16.*PostgreSQL 18"):
        EmbeddedServer(folder).start()


def test_a_long_path_gets_a_short_socket_folder(folder: Path) -> None:
    longer = folder.parent / ("deep" * 20) / ("deeper" * 10)
    longer.parent.mkdir(mode=0o755)
    folder.rename(longer)
    try:
        with EmbeddedServer(longer, settings=FAST) as server:
            assert answers(server)
            assert len(str(server.socket_dir)) < 60
            about = server.socket_dir.stat()
            assert about.st_mode & 0o777 == 0o700
        shutil.rmtree(server.socket_dir)
    finally:
        longer.rename(folder)


def test_a_socket_folder_prepared_by_somebody_else_is_refused(folder: Path) -> None:
    server = EmbeddedServer(folder)
    shutil.rmtree(server.socket_dir)
    server.socket_dir.symlink_to(folder.parent)
    with pytest.raises(ServerError, match="remove it or choose another place"):
        server.start()


def test_tcp_only_when_asked_and_only_with_a_password(folder: Path) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with EmbeddedServer(folder, settings=FAST, port=port) as server:
        with psycopg.connect(server.tcp_uri()) as connection:
            assert connection.execute("select inet_server_port()").fetchone() == (port,)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://postgres:wrong@127.0.0.1:{port}/postgres")
        # Attaching without knowing of the port finds the socket all the same.
        assert answers(EmbeddedServer(folder))
    with EmbeddedServer(folder, settings=FAST) as server, pytest.raises(ServerError, match="port"):
        server.tcp_uri()


@as_root_only
def test_as_root_no_folder_that_is_not_ours_changes(server_folder: Path) -> None:
    closed = server_folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "inner").mkdir(mode=0o750)
    before = {path: path.stat().st_mode for path in (closed, closed / "inner", *closed.parents)}
    with pytest.raises(ServerError, match="closed"):
        EmbeddedServer(closed / "inner" / "server").start()
    opened = server_folder / "opened"
    opened.mkdir(mode=0o711)
    with EmbeddedServer(opened / "server", settings=FAST) as server:
        assert server.status().user != "root"
    assert {path: path.stat().st_mode for path in before} == before
    assert opened.stat().st_mode & 0o777 == 0o711
    shutil.rmtree(closed)
    shutil.rmtree(opened)


@as_root_only
def test_as_root_programs_in_a_closed_place_are_copied_once(
    folder: Path, server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = server_folder / "home"
    closed.mkdir(mode=0o700)
    package = server_module._wheel_programs().parents[1]
    for part in (package, package.with_name(package.name + ".libs")):
        shutil.copytree(part, closed / part.name)
    programs = closed / package.name / "pginstall" / "bin"
    mode = closed.stat().st_mode
    copied: Path | None = None
    try:
        for _ in range(2):
            with EmbeddedServer(folder, settings=FAST, bin_dir=programs) as server:
                assert server._reachable != programs
                assert copied in (None, server._reachable)
                copied = server._reachable
                assert answers(server)
        assert closed.stat().st_mode == mode
    finally:
        shutil.rmtree(closed)
        if copied is not None:
            shutil.rmtree(copied.parents[2])


def test_the_configured_database_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql+psycopg://u@h/d")
    assert configured_dsn() == default_dsn() == "postgresql://u@h/d"
    monkeypatch.setenv("PGTASKER_DSN", "host=/somewhere dbname=x")
    assert default_dsn() == "host=/somewhere dbname=x"


def test_the_default_database_is_made_on_the_embedded_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("PGTASKER_DSN", raising=False)
    monkeypatch.setenv("PGTASKER_DATA_DIR", str(folder))
    assert default_data_dir() == folder
    for _ in range(2):
        with psycopg.connect(default_dsn()) as connection:
            assert connection.info.dbname == "pgtasker"
    assert EmbeddedServer().status().running


def test_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ServerError, match=r"pgtasker\[embedded\]"):
        EmbeddedServer(tmp_path)


def has_socket(pid: int) -> bool:
    """Whether a process has begun to talk to somebody."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if os.readlink(descriptor).startswith("socket:"):
                return True
    return False


def test_waits_for_a_server_that_is_still_starting(folder: Path) -> None:
    """Somebody else started it a moment ago (or it is recovering): opening waits instead of failing."""
    server = EmbeddedServer(folder, settings=FAST).start()
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    opener = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"from pgtasker.server import EmbeddedServer; EmbeddedServer({str(folder)!r}).start()",
        ]
    )
    end = time.monotonic() + 30
    while not has_socket(opener.pid):
        assert time.monotonic() < end
    assert opener.poll() is None
    os.kill(pid, signal.SIGCONT)
    assert opener.wait(timeout=60) == 0
