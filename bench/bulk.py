"""`python -m bench.bulk [TASKS ...]`: what `create_tasks` costs with so many requests in one call.

Each size goes through `Client.create_tasks` in a session of its own that has made its plans, once with plain requests
and once with unique keys of which every second one is taken. Processor time and memory are the server's, so that a
busy machine changes little. Prints a table in Markdown.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from bench import server
from pgtasker import Client, migrate

SIZES = (1_000, 10_000, 100_000)
TEMPLATE = {"name": "one", "version": "1", "steps": [{"name": "a", "handler": "noop"}]}


def requests(tasks: int, *, unique: bool) -> list[dict[str, Any]]:
    return [
        {"name": "one", "context": {"n": n}, **({"unique_key": f"{tasks}-{n // 2}"} if unique else {})}
        for n in range(tasks)
    ]


def peak_memory(pid: int) -> int:
    """The most memory that a process has had in kB, with what it has read of the shared buffers."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return int(found[1]) if found else 0


def measure(database: server.Database, tasks: int, *, unique: bool) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn, Client(database.dsn) as client:
        for number in range(10):
            client.create_tasks(requests(number + 1, unique=unique), conn=conn)
        before = database.counted()
        began = time.monotonic()
        client.create_tasks(requests(tasks, unique=unique), conn=conn)
        seconds = time.monotonic() - began
        memory = peak_memory(conn.info.backend_pid)
    used = database.counted() - before
    print(
        f"| {'unique keys' if unique else 'plain'} | {tasks:,} | {seconds:.1f} | {used.cpu_seconds:.1f}"
        f" | {1e6 * used.cpu_seconds / tasks:.0f} | {memory / 1024:.0f} |",
        flush=True,
    )


def main() -> int:
    sizes = [int(given.replace("_", "")) for given in sys.argv[1:]] or SIZES
    print("| requests | in one call | s | server CPU, s | CPU a request, µs | most memory, MB |")
    print("|---|---:|---:|---:|---:|---:|")
    with server.running() as running:
        for unique in (False, True):
            for tasks in sizes:
                with running.database() as database:
                    migrate.upgrade(database.dsn)
                    with Client(database.dsn) as client:
                        client.register_template(TEMPLATE)
                    measure(database, tasks, unique=unique)
    return 0


if __name__ == "__main__":
    sys.exit(main())
