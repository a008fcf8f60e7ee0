"""The command line ``pgtasker``, also ``python -m pgtasker.cli``; see docs/cli.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (``argv`` without the program's name; None: the process's own) and return its exit code.

    0 done, 1 refused or something found, 2 wrong usage, 3 no connection, 130 interrupted.
    """
    # Imported here: `import pgtasker.cli` must not cost a service the CLI's libraries.
    try:
        from pgtasker.cli._app import run_command_line
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("cyclopts", "rich"):
            raise
        sys.stderr.write("error: the command line needs the extra cli\nhint: pip install 'pgtasker[cli]'\n")
        return 2
    return run_command_line(argv)
