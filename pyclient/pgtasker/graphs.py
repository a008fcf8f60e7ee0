"""Workflow files: from YAML, JSON or a WfCommons trace to the graph that the database takes.

Only the syntax of a file is judged here. Whether a graph is a good one (cycles, unknown dependencies, limits) is
decided by ``tasker.register_template`` and ``tasker.create_task_from_graph``, which name all problems at once.
"""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Json = Any
"""What ``json.loads`` returns: dict, list, str, int, float, bool or None."""

STANDARD_INPUT = "/dev/stdin"
WFCOMMONS_SCHEMA_VERSIONS = ("1.5",)
_DEFAULT_STEP_TIMEOUT_SECONDS = 300


class GraphFileError(ValueError):
    """A workflow file that cannot be read.

    ``source`` is the path as given (or ``<stdin>``), ``line`` the 1-based line where it is known.
    """

    def __init__(self, message: str, source: str, line: int | None = None) -> None:
        place = source if line is None else f"{source}, line {line}"
        super().__init__(f"{place}: {message}")
        self.message = message
        self.source = source
        self.line = line


@dataclass(frozen=True)
class GraphFile:
    """A workflow read from a file.

    ``graph`` has the shape of ``register_template``'s argument: ``{"name", "steps": [{"name", "handler",
    "depends_on", ...}], ...}``.
    """

    graph: dict[str, Json]
    source: str
    format: Literal["pgtasker", "wfcommons"]

    @property
    def name(self) -> str:
        """The workflow's name, or '' where the file gives none (the database will say so)."""
        name = self.graph.get("name")
        return name if isinstance(name, str) else ""

    @property
    def version(self) -> str | None:
        """The template version the file states; None for an ad-hoc graph."""
        version = self.graph.get("version")
        return None if version is None else str(version)

    @property
    def step_count(self) -> int:
        """Number of steps."""
        return sum(1 for _ in _steps(self.graph))

    @property
    def edge_count(self) -> int:
        """Number of dependencies between steps."""
        return sum(
            len(depends_on) for step in _steps(self.graph) if isinstance(depends_on := step.get("depends_on"), list)
        )

    @property
    def handlers(self) -> set[str]:
        """Names of the handlers that the steps ask for (a step without one is handled by its own name)."""
        return {str(step.get("handler") or step.get("name")) for step in _steps(self.graph)}


def load(path: str | Path) -> GraphFile:
    """Read a workflow file; ``-`` reads standard input.

    A name ending in ``.json`` is read as JSON, ``.yaml`` or ``.yml`` as YAML 1.2, anything else as JSON if it starts
    with ``{`` and as YAML if not. WfCommons traces (WfFormat 1.5) are recognised by their content.

    Raises GraphFileError for a file that is missing, unreadable, not UTF-8 or not valid JSON or YAML.
    """
    if str(path) in ("-", STANDARD_INPUT):
        return parse(sys.stdin.read(), source="<stdin>")
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise GraphFileError(error.strerror or str(error), str(path)) from None
    except UnicodeDecodeError as error:
        raise GraphFileError(f"not UTF-8 text (byte {error.start})", str(path)) from None
    return parse(text, source=str(path), name=path.stem, suffix=path.suffix.lower())


def parse(text: str, source: str = "<text>", name: str | None = None, suffix: str = "") -> GraphFile:
    """Read a workflow from text; ``name`` names a WfCommons trace, ``suffix`` is the file's ('.json', '.yaml', '.yml'
    or '').

    Raises GraphFileError for text that is not valid JSON or YAML, or not one object.
    """
    looks_like_json = text.lstrip().startswith("{")
    if suffix == ".json" or (suffix not in (".yaml", ".yml") and looks_like_json):
        document = _parse_json(text, source)
    else:
        document = _parse_yaml(text, source)
    if not isinstance(document, dict):
        raise GraphFileError("a workflow file holds one object with 'name' and 'steps'", source)
    if is_wfcommons(document):
        return GraphFile(from_wfcommons(document, source=source, name=name), source, "wfcommons")
    return GraphFile(document, source, "pgtasker")


def is_wfcommons(document: dict[str, Json]) -> bool:
    """True for a document laid out as WfCommons' WfFormat, whatever its version."""
    workflow = document.get("workflow")
    return isinstance(workflow, dict) and ("specification" in workflow or "schemaVersion" in document)


def from_wfcommons(document: dict[str, Json], source: str = "<document>", name: str | None = None) -> dict[str, Json]:
    """A WfFormat 1.5 trace as a graph: every traced task is a step handled by ``sleep``.

    A step's name is the traced task's id (its name need not be unique), its dependencies the traced parents, and its
    arguments ``{"seconds": the traced run time, "program": the traced program}``. The handler divides ``seconds`` by
    the ``speedup`` of the task's context.

    Raises GraphFileError for another version or a trace without the parts that are needed.
    """
    version = str(document.get("schemaVersion"))
    if version not in WFCOMMONS_SCHEMA_VERSIONS:
        raise GraphFileError(f"WfFormat {version} is not read, only {', '.join(WFCOMMONS_SCHEMA_VERSIONS)}", source)
    try:
        specified = document["workflow"]["specification"]["tasks"]
        executed = {task["id"]: task for task in document["workflow"].get("execution", {}).get("tasks", [])}
        parents_of: dict[str, list[str]] = {task["id"]: list(task.get("parents", [])) for task in specified}
        for task in specified:
            for child in task.get("children", []):
                if task["id"] not in parents_of[child]:
                    parents_of[child].append(task["id"])
        steps = [
            _wfcommons_step(task["id"], parents_of[task["id"]], executed.get(task["id"], {})) for task in specified
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise GraphFileError(f"not a complete WfFormat document ({type(error).__name__}: {error})", source) from None
    traced_name = str(document.get("name") or "trace")
    return {
        "name": name or traced_name,
        "description": f"WfCommons trace {traced_name}: {document.get('description') or 'no description'}",
        "steps": steps,
    }


def _wfcommons_step(step_id: str, parents: list[str], execution: dict[str, Json]) -> dict[str, Json]:
    seconds = float(execution.get("runtimeInSeconds") or 0)
    arguments: dict[str, Json] = {"seconds": seconds}
    program = (execution.get("command") or {}).get("program")
    if program:
        arguments["program"] = program
    return {
        "name": step_id,
        "handler": "sleep",
        "depends_on": parents,
        "arguments": arguments,
        # A trace run at its original speed must not be timed out by the default limit.
        "timeout_seconds": max(_DEFAULT_STEP_TIMEOUT_SECONDS, math.ceil(seconds * 2)),
    }


def _steps(graph: dict[str, Json]) -> Iterator[dict[str, Json]]:
    steps = graph.get("steps")
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, dict):
            yield step


def _parse_json(text: str, source: str) -> Json:
    def object_without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        members: dict[str, Json] = {}
        for key, value in pairs:
            if key in members:
                raise GraphFileError(f"the key {key!r} appears twice in one object", source)
            members[key] = value
        return members

    def refuse_constant(constant: str) -> Json:
        raise GraphFileError(f"{constant} is not JSON", source)

    try:
        return json.loads(text, object_pairs_hook=object_without_duplicates, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise GraphFileError(f"not valid JSON: {error.msg}", source, error.lineno) from None


def _parse_yaml(text: str, source: str) -> Json:
    # Imported here so that programs which only read JSON need no YAML library.
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError:
        raise GraphFileError(
            "reading YAML needs the package 'ruamel.yaml' (pip install 'pgtasker[cli]')", source
        ) from None
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise GraphFileError(f"not valid YAML: {error.problem or error.context}", source, line) from None
    except (YAMLError, ValueError) as error:
        raise GraphFileError(f"not valid YAML: {error}", source) from None
    return _as_json(document, source)


def _as_json(value: Any, source: str) -> Json:
    """YAML's values as JSON's: dates become ISO 8601 text, what JSON cannot say is refused."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise GraphFileError(f"the key {key!r} must be text: put it in quotes", source)
        return {key: _as_json(item, source) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item, source) for item in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise GraphFileError(f"{value} is not JSON", source)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise GraphFileError(f"a value of type {type(value).__name__} is not JSON", source)
