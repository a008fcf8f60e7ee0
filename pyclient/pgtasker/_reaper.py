"""Ends the programs of a worker that was killed.

Run as a program of its own, without the site packages: ``python -I -S _reaper.py MARK``. It reads lines ``+GROUP`` and
``-GROUP`` from standard input; when that ends, and it ends with the worker however the worker ends, it kills the
process groups that are left. Where the system tells the environment of processes, it also kills those marked by
``MARK``: a program may have been started that the worker had no time to tell of.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

_LOOKS = 3
_SECONDS_BETWEEN_LOOKS = 0.2


def main() -> None:
    """Keep the list of groups until the worker has gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(_LOOKS):  # one that is just being started is not marked yet
        for process in marked_processes(sys.argv[1].encode()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def marked_processes(mark: bytes) -> list[int]:
    """The processes whose environment has this entry; none where /proc does not tell."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    main()
