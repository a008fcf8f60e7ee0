"""The command line ``pgtasker``, also ``python -m pgtasker.cli``; see docs/cli.md."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (``argv`` without the program's name; None: the process's own) and return its exit code.

    0 done, 1 refused or something found, 2 wrong usage, 3 no connection, 130 interrupted.
    """
    # Imported here: `import pgtasker.cli` must not cost a service the CLI's libraries.
    from pgtasker.cli._app import run_command_line

    return run_command_line(argv)
