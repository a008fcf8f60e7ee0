"""The program in processes that are forked from this one, which has imported it.

To start Python and import everything anew takes half a second of work, most of what a quick command costs. A line of
JSON on stdin is one command: its words, where and in which environment it runs, and a folder with its stdin,
where its stdout and stderr are left. Answered is its exit code, as `subprocess` tells it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import sys

from pgtasker import cli

WHERE_NEEDED = (
    "alembic.command",
    "cyclopts.help",
    "rich.console",
    "rich.table",
    "sqlalchemy.dialects.postgresql.psycopg",
)
"""What commands import only where they need it."""


def main() -> None:
    commands = (module.name for module in pkgutil.iter_modules(cli.__path__) if module.name != "__main__")
    for name in (*WHERE_NEEDED, *(f"{cli.__name__}.{command}" for command in commands)):
        importlib.import_module(name)
    gc.freeze()  # no process looks through all this when it ends
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            for number, name in enumerate(("stdin", "stdout", "stderr")):
                os.dup2(os.open(os.path.join(command["folder"], name), os.O_RDWR | os.O_CREAT), number)
            sys.stdin = open(0)  # noqa: SIM115 (lives as long as the process)
            os.chdir(command["cwd"])
            os.environ.clear()
            os.environ.update(command["environment"])
            sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
            sys.exit(cli.main(command["words"]))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
