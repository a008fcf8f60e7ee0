"""Arguments that several commands share, and how their text is read."""

from __future__ import annotations

import datetime as dt
import getpass
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from pgtasker.cli._errors import usage_error

if TYPE_CHECKING:
    from pgtasker.graphs import GraphFile

TaskUuid = Annotated[str, Parameter(name="TASK", help="The task's uuid.")]
Step = Annotated[str, Parameter(name="STEP", help="The step's uuid, or TASK_UUID/STEP_NAME.")]
Reason = Annotated[str, Parameter(name=["--reason", "-r"], help="Why; it is kept in the log.")]
RequestedBy = Annotated[str | None, Parameter(name="--by", help="Who asks; your login name if left out.")]
RequestId = Annotated[
    str | None,
    Parameter(name="--request-id", help="Makes the command safe to repeat: the same id gets the first answer again."),
]
Flag = Parameter(negative="")
WorkflowFile = Annotated[
    str, Parameter(name="FILE", help="Our YAML or JSON, or a WfCommons trace ('-': standard input).")
]


def requested_by(name: str | None) -> str:
    """The person a manual action is attributed to: as given, else the login name."""
    if name:
        return name
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def load_files(files: Sequence[str]) -> list[GraphFile]:
    """The workflow files of a command line.

    Raises CommandError where none is given, GraphFileError for one that cannot be read.
    """
    from pgtasker import graphs

    if not files:
        raise usage_error("give at least one FILE")
    return [graphs.load(file) for file in files]


def json_argument(text: str | None, option: str) -> Any:
    """JSON given on the command line, or in a file as ``@FILE``; None where nothing was given."""
    if text is None:
        return None
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise usage_error(f"{option}: {error.strerror}: {text[1:]}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise usage_error(
            f"{option}: not valid JSON: {error}", "put it in single quotes, or in a file: @FILE"
        ) from None


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """Like json_argument, but an object; ``{}`` where nothing was given."""
    value = json_argument(text, option)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise usage_error(f"{option} takes a JSON object, such as '{{\"key\": 1}}'")
    return value


def moment(given: dt.datetime) -> dt.datetime:
    """A time of the command line; UTC where it has no zone."""
    return given if given.tzinfo else given.replace(tzinfo=dt.UTC)


def tags_argument(pairs: Sequence[str]) -> dict[str, str]:
    """``key=value`` words as an object."""
    tags: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise usage_error(f"--tag takes key=value, not {pair!r}")
        tags[key] = value
    return tags
