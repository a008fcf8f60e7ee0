"""The tree of commands and the one place where a command line is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, CycloptsError, Group, Parameter

from pgtasker import __version__, graphs
from pgtasker.cli import _errors
from pgtasker.cli._output import talk
from pgtasker.cli._settings import settings

HELP = """Workflows whose every rule lives in PostgreSQL.

Without --dsn and DATABASE_URL the commands use a PostgreSQL server of their own in a local data folder.
Data goes to stdout, talk to stderr. Exit codes: 0 done, 1 refused or something found, 2 wrong usage, 3 no connection.
"""


app = App(name="pgtasker", help=HELP, help_format="plaintext", version=__version__, result_action="return_value")
_global_options = Group("Global options", sort_key=100)

# Named, not imported: `pgtasker worker run` must not pay for the modules of the other commands.
for _name, _target, _help in (
    ("demo", "pgtasker.cli.demo:demo", "Run a real workflow on this machine, with live progress."),
    ("run", "pgtasker.cli.run:run", "Drive a workflow file (ours or a WfCommons trace) to its end."),
    ("task", "pgtasker.cli.task:app", "Create, watch, explain and repair tasks."),
    ("step", "pgtasker.cli.step:app", "Look at and repair single steps."),
    ("template", "pgtasker.cli.template:app", "Register and read workflow templates."),
    ("worker", "pgtasker.cli.worker:app", "Run and supervise workers."),
    ("schedule", "pgtasker.cli.schedule:app", "Create tasks by the clock."),
    ("event", "pgtasker.cli.event:app", "Tell steps that wait what happened outside."),
    ("tool", "pgtasker.cli.tool:app", "Look at tools and set how long their steps may take."),
    ("breaker", "pgtasker.cli.breaker:app", "Look at circuit breakers, set them up, and reset them."),
    ("limit", "pgtasker.cli.limit:app", "Look at limits of tools, namespaces and templates, and set them."),
    ("lifecycle", "pgtasker.cli.lifecycle:app", "Print the state machines, drawn from their rows."),
    ("sql", "pgtasker.cli.sql:app", "The functions that any language calls."),
    ("audit", "pgtasker.cli.audit:app", "Read the audit trail of results."),
    ("export", "pgtasker.cli.export:export", "Print every transition as JSON lines, in the schema of seed 000."),
    (
        "validate-transitions",
        "pgtasker.cli.validate:validate_transitions",
        "Check a file of transitions, of any producer, against the rules.",
    ),
    ("metrics", "pgtasker.cli.metrics:app", "Print metrics, or the text that Prometheus reads, or serve it."),
    ("top", "pgtasker.cli.top:top", "Show what happens now, drawn again and again."),
    ("attach", "pgtasker.cli.attach:app", "Give rows of your own tables a lifecycle."),
    ("namespace", "pgtasker.cli.namespace:app", "List, pause and resume namespaces, and switch their notifications."),
    (
        "check",
        "pgtasker.cli.operate:check",
        "Recompute every counter and state from first principles; must find nothing.",
    ),
    ("bulk", "pgtasker.cli.bulk:bulk", "One command for all tasks or steps that a filter finds."),
    ("doctor", "pgtasker.cli.doctor:doctor", "Look for everything that is wrong, and say what mends it."),
    ("recover", "pgtasker.cli.operate:recover", "Find work that nothing would move any more, and mend it."),
    ("grants", "pgtasker.cli.grants:grants", "Who may do what, and what about it is not as it should be."),
    ("login", "pgtasker.cli.login:app", "Bind logins to namespaces."),
    ("idempotency", "pgtasker.cli.idempotency:app", "Stored answers to request ids."),
    ("tick", "pgtasker.cli.operate:tick", "Fire the timers that are due."),
    ("orchestrate", "pgtasker.cli.operate:orchestrate", "Drain reported results and move ready tasks."),
    ("migrate", "pgtasker.cli.migrate:migrate", "Install or upgrade the schema."),
    ("api", "pgtasker.cli.api:app", "Serve the HTTP API, and make tokens for it."),
    ("dashboard", "pgtasker.cli.dashboard:dashboard", "Serve a web page with what goes on."),
    ("db", "pgtasker.cli.db:app", "The embedded server: start, stop, address, psql."),
):
    app.command(_target, name=_name, help=_help)


@app.meta.default
def _launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    dsn: Annotated[
        str | None, Parameter(group=_global_options, help="Server to use instead of DATABASE_URL or the embedded one.")
    ] = None,
    json: Annotated[
        bool, Parameter(group=_global_options, negative="", help="Print JSON on stdout (and errors as JSON on stderr).")
    ] = False,
) -> object:
    settings.dsn = dsn
    settings.json = json
    return app(tokens, exit_on_error=False, print_error=False)


def run_command_line(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every foreseen error is printed without a traceback."""
    tokens = _with_standard_input(list(sys.argv[1:] if argv is None else argv))
    try:
        result = app.meta(tokens, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        talk(f"error: {_without_frame(error)}", style="red")
        talk(f"hint: pgtasker {' '.join(_command_words(tokens))} --help".replace("  ", " "), style="yellow")
        return _errors.USAGE
    except KeyboardInterrupt:
        return _errors.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone. Its closed pipe must not raise again when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _errors.REFUSED
    except Exception as error:
        exit_code = _errors.report(error)
        if exit_code is None:
            raise
        return exit_code
    return result if isinstance(result, int) and not isinstance(result, bool) else _errors.OK


def _with_standard_input(words: list[str]) -> list[str]:
    """The words with '-' spelled out: the parser takes a lone hyphen for an option. What follows '--' is left alone."""
    own = words.index("--") if "--" in words else len(words)
    return [graphs.STANDARD_INPUT if word == "-" else word for word in words[:own]] + words[own:]


def _without_frame(error: CycloptsError) -> str:
    return str(error).strip().replace("\n", " ")


def _command_words(tokens: Sequence[str]) -> list[str]:
    """The leading words that name a command, for the hint."""
    words: list[str] = []
    node: App = app
    for token in tokens:
        if token.startswith("-") or token not in node:
            break
        words.append(token)
        node = node[token]
    return words
