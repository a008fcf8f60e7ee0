"""Ends the process groups of a worker that was killed.

Run as a program of its own, without the site packages: ``python -I -S _reaper.py``. It reads lines ``+GROUP`` and
``-GROUP`` from standard input; when that ends, and it ends with the worker however the worker ends, it kills the groups
that are left.
"""

import contextlib
import os
import signal
import sys


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


if __name__ == "__main__":
    main()
