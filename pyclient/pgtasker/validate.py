"""Checks of a file of state transitions (seed 000, "Event Schema" and "Validation"): is it right, line by line?

The rules are those of the vocabularies: shipped with the package, exported from a database, or read from one. Nothing
here needs a server. A file is read once, line by line; what is kept is the last row of each entity.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_VOCABULARIES = Path(__file__).resolve().parent / "sql" / "vocabularies"

EVENT_TYPES: Mapping[str, str] = {
    "workstream_state_transition": "task",
    "task_state_transition": "step",
    "worker_state_transition": "worker",
    "circuit_breaker_state_transition": "circuit_breaker",
    "custom_state_transition": "custom",
}
"""Event type of a line -> kind of the lifecycle it speaks of. The first three are seed 000's, the others additions."""

SEVERITIES = frozenset({"info", "warning", "error", "critical"})

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.(\d{1,6}))?Z")
_PART = "a part of a longer log: --window"
_TIMESTAMP_LENGTH = len("2024-01-15T10:30:00.000000Z")


class RulesError(ValueError):
    """The rules can't be read: not JSON, not vocabularies, or no such vocabulary."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with one line.

    Attributes:
        line: number of the line, from 1
        kind: json, schema, lifecycle, legality, terminal, continuity, timestamp or invariant
        entity_id: the entity it speaks of; None where that can't be read
        message: what is wrong
        allowed: what would have been right; empty where nothing would
    """

    line: int
    kind: str
    entity_id: str | None
    message: str
    allowed: tuple[str, ...] = ()


class _Machine:
    """One lifecycle, and the last row of each entity that follows it."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        states: Sequence[Mapping[str, Any]] = definition["states"]
        self.name: str = definition["lifecycle"]
        self.kind: str = definition["kind"]
        self.initial: str = definition["initial_state"]
        self.states = frozenset(str(state["state"]) for state in states)
        flags = {str(state["state"]): set(state.get("flags") or ()) for state in states}
        self.terminal = frozenset(name for name, has in flags.items() if "is_terminal" in has)
        self.satisfying = frozenset(name for name, has in flags.items() if "satisfies_dependencies" in has)
        self.succeeded = frozenset(str(each["state"]) for each in states if each["phase"] == "succeeded")
        self.edges = frozenset((rule["from"], rule["event"], rule["to"]) for rule in definition["transitions"])
        # entity -> (state, normalized timestamp, sort_key)
        self.entities: dict[str, tuple[str, str, int | None]] = {}

    def leads_to(self, state: str) -> tuple[str, ...]:
        return tuple(sorted(f"{event} to {to}" for start, event, to in self.edges if start == state))


class Rules:
    """Lifecycles by name, and which of them a vocabulary uses for which kind of entity."""

    def __init__(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        """Take vocabulary definitions, as `define_vocabulary` takes them.

        Raises:
            RulesError: one of them is not a vocabulary definition.
        """
        self._lifecycles: dict[str, Mapping[str, Any]] = {}
        self.vocabularies: dict[str, dict[str, str]] = {}
        try:
            for definition in definitions:
                for lifecycle in definition["lifecycles"]:
                    _Machine(lifecycle)
                    self._lifecycles[lifecycle["lifecycle"]] = lifecycle
                self.vocabularies[definition["vocabulary"]] = {
                    kind: definition[f"{kind}_lifecycle"]
                    for kind in ("task", "step", "worker", "circuit_breaker")
                    if definition.get(f"{kind}_lifecycle")
                }
        except (KeyError, TypeError, AttributeError) as error:
            raise RulesError(f"not a list of vocabulary definitions: {error}") from error

    def machines(self) -> dict[str, _Machine]:
        """Make one machine of each lifecycle, by name."""
        return {name: _Machine(lifecycle) for name, lifecycle in self._lifecycles.items()}


def shipped_rules() -> Rules:
    """Return the rules of the vocabularies that come with the package."""
    definitions = []
    for path in sorted(_VOCABULARIES.glob("*.sql")):
        for text in re.findall(r"\$vocabulary\$(.*?)\$vocabulary\$", path.read_text(encoding="utf-8"), re.DOTALL):
            definitions.append(json.loads(text))
    return Rules(definitions)


def read_rules(path: Path) -> Rules:
    """Return the rules in a file that `pgtasker lifecycle export` wrote: a JSON array of vocabulary definitions.

    Raises:
        RulesError: the file is something else.
        OSError: it can't be read.
    """
    try:
        definitions = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RulesError(f"{path}: not JSON: {error}") from error
    if not isinstance(definitions, list):
        raise RulesError(f"{path}: not a list of vocabulary definitions")
    return Rules(definitions)


def _loads() -> Any:
    """orjson where it is installed, which doubles the speed."""
    try:
        import orjson  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return json.loads
    return orjson.loads


def _is_metadata(value: Any) -> bool:
    if type(value) is not dict:
        return False
    duration: Any = value.get("duration_seconds")
    retries: Any = value.get("retry_count")
    return type(duration) in (int, float) and duration >= 0 and type(retries) is int and retries >= 0


@dataclass(slots=True)
class _Line:
    """A line whose schema is right as far as the other checks need it."""

    event_type: str
    entity_id: str
    from_state: str | None
    to_state: str
    trigger: str
    timestamp: str
    body: Mapping[str, Any] = field(repr=False)


class Validator:
    """Checks lines as they come.

    Attributes:
        lines: how many were read, empty ones left out
        counts: findings by kind
    """

    def __init__(self, rules: Rules, *, vocabulary: str = "orchestration", window: bool = False) -> None:
        """Check against rules.

        Args:
            rules: the lifecycles.
            vocabulary: whose lifecycles are meant by lines that name none (no key `lifecycle`).
            window: the file is a part of a longer log, so entities may start anywhere.

        Raises:
            RulesError: the rules have no such vocabulary.
        """
        self._machines = rules.machines()
        if vocabulary not in rules.vocabularies:
            raise RulesError(f"there is no vocabulary {vocabulary}; there are {', '.join(sorted(rules.vocabularies))}")
        self._vocabulary = vocabulary
        self._window = window
        # (event type, lifecycle named by the line) -> machine
        self._chosen: dict[tuple[str, str | None], _Machine] = {
            (event_type, None): self._machines[rules.vocabularies[vocabulary][kind]]
            for event_type, kind in EVENT_TYPES.items()
            if rules.vocabularies[vocabulary].get(kind) in self._machines
        }
        for name, machine in self._machines.items():
            for event_type, kind in EVENT_TYPES.items():
                if kind == machine.kind:
                    self._chosen[event_type, name] = machine
        self._decode = _loads()
        self._date = ""  # the last date that was found to exist
        # steps that do not satisfy their dependents now -> (their workstream, line)
        self._open_steps: dict[str, tuple[str, int]] = {}
        self._line_number = 0
        self.lines = 0
        self.counts: Counter[str] = Counter()

    @property
    def entities(self) -> int:
        """How many entities were met."""
        return sum(len(machine.entities) for machine in self._machines.values())

    def feed(self, raw: bytes | str) -> list[Finding]:
        """Check the next line of the file; return what is wrong with it."""
        self._line_number += 1
        try:
            body = self._decode(raw)
        except ValueError as error:
            if not raw.strip():
                return []
            self.lines += 1
            return self._found([self._finding("json", None, f"not JSON: {error}")])
        self.lines += 1
        if self._is_right(body):
            return []
        findings: list[Finding] = []
        line = self._read(body, findings)
        if line is not None:
            self._follow(line, findings)
        return self._found(findings)

    def _is_right(self, body: Any) -> bool:
        """Take in a line that nothing can be said against; leave all others alone for those who find the words.

        What it lets pass the careful way would let pass too; it only saves time, three quarters of it.
        """
        try:
            entity, event_type, timestamp = body["entity_id"], body["event_type"], body["timestamp"]
            from_state, to_state, metadata = body["from_state"], body["to_state"], body["metadata"]
            lifecycle, sort_key = body.get("lifecycle"), body.get("sort_key")
            machine = self._chosen[event_type, lifecycle]
            before = machine.entities.get(entity)
            if before is None:
                follows = from_state is None and to_state == machine.initial and body["trigger"] == "create"
                follows = follows and (sort_key is None or sort_key == 1) and type(entity) is str and entity != ""
            else:
                follows = before[0] == from_state and before[1] <= timestamp
                follows = follows and (from_state, body["trigger"], to_state) in machine.edges
                follows = follows and (sort_key is None or (before[2] is not None and sort_key == before[2] + 1))
            if (
                not follows
                or len(timestamp) != _TIMESTAMP_LENGTH
                or not _TIMESTAMP.fullmatch(timestamp)
                or timestamp[:10] != self._date
                or body["severity"] not in SEVERITIES
                or not _is_metadata(metadata)
                or "max_retries" in metadata
            ):
                return False
        except (KeyError, TypeError, AttributeError):
            return False
        machine.entities[entity] = (to_state, timestamp, sort_key)
        if machine.kind == "step":
            self._note_step(machine, entity, to_state, body)
        return True

    def finish(self) -> list[Finding]:
        """Check what only the end of the file tells; return what is wrong."""
        if self._window:
            return []
        done = {
            entity
            for machine in self._machines.values()
            if machine.kind == "task"
            for entity, (state, _, _) in machine.entities.items()
            if state in machine.succeeded
        }
        rule = ("end a workstream well only when every task of it has ended well",)
        return self._found(
            [
                Finding(line, "invariant", step, f"workstream {of} is done, but this task of it did not succeed", rule)
                for step, (of, line) in self._open_steps.items()
                if of in done
            ]
        )

    def _found(self, findings: list[Finding]) -> list[Finding]:
        self.counts.update(finding.kind for finding in findings)
        return findings

    def _finding(self, kind: str, entity: str | None, message: str, *allowed: str) -> Finding:
        return Finding(self._line_number, kind, entity, message, allowed)

    # -- one line ----------------------------------------------------------------------------------------------------

    def _read(self, body: Any, findings: list[Finding]) -> _Line | None:
        """Check the schema. Explicit, since it is a handful of fields, and a general checker would tell less and,
        in pure Python, take ten times as long."""
        if not isinstance(body, dict):
            findings.append(self._finding("schema", None, "a line must be a JSON object"))
            return None
        get: Any = body.get
        entity, event_type, trigger = get("entity_id"), get("event_type"), get("trigger")
        from_state, to_state = get("from_state", 0), get("to_state")
        timestamp: Any = self._timestamp(get("timestamp"))
        metadata = get("metadata")
        right = (
            timestamp is not None
            and type(entity) is str
            and entity != ""
            and type(event_type) is str
            and event_type in EVENT_TYPES
            and type(trigger) is str
            and trigger != ""
            and type(to_state) is str
            and bool(to_state)
            and (from_state is None or type(from_state) is str)
        )
        if right and _is_metadata(metadata) and get("severity") in SEVERITIES:
            limit = metadata.get("max_retries")
            if type(limit) is int and metadata["retry_count"] > limit:
                message = f"retry_count {metadata['retry_count']} exceeds max_retries {limit}"
                findings.append(self._finding("invariant", entity, message, f"retry_count up to {limit}"))
        else:
            findings += self._schema_problems(body)
        return _Line(event_type, entity, from_state, to_state, trigger, timestamp, body) if right else None

    def _timestamp(self, value: Any) -> str | None:
        """The time with all six digits, so that texts sort as times; None for anything but ISO 8601 UTC with Z."""
        match = _TIMESTAMP.fullmatch(value) if type(value) is str else None
        if match is None:
            return None
        if match[1] != self._date:
            try:
                dt.date.fromisoformat(match[1])
            except ValueError:
                return None
            self._date = match[1]
        text: str = value
        return text if len(text) == _TIMESTAMP_LENGTH else f"{text[:19]}.{match[2] or '':0<6}Z"

    def _schema_problems(self, body: Mapping[str, Any]) -> Iterator[Finding]:
        metadata = body.get("metadata")
        inside = metadata if isinstance(metadata, dict) else {}
        entity = body.get("entity_id")

        def text(name: str) -> bool:
            return isinstance(body.get(name), str) and body[name] != ""

        def number(name: str, *kinds: type) -> bool:
            return type(inside.get(name)) in kinds and inside[name] >= 0

        has_metadata = isinstance(metadata, dict)
        time_is_right = self._timestamp(body.get("timestamp")) is not None
        from_is_right = isinstance(body.get("from_state", 0), str | None)
        checks: list[tuple[str, bool, str]] = [
            ("timestamp", time_is_right, "a time in UTC such as 2024-01-15T10:30:00.000Z"),
            ("event_type", text("event_type") and body["event_type"] in EVENT_TYPES, " | ".join(EVENT_TYPES)),
            ("severity", text("severity") and body["severity"] in SEVERITIES, "info | warning | error | critical"),
            ("entity_id", text("entity_id"), "a text that is not empty"),
            ("from_state", from_is_right, "a state, or null in the first row of an entity"),
            ("to_state", text("to_state"), "a state"),
            ("trigger", text("trigger"), "the event that happened"),
            ("metadata", has_metadata, "an object"),
            ("duration_seconds", not has_metadata or number("duration_seconds", int, float), "a number of at least 0"),
            ("retry_count", not has_metadata or number("retry_count", int), "a whole number of at least 0"),
        ]
        for name, right, expected in checks:
            if not right:
                holder = inside if name in ("duration_seconds", "retry_count") else body
                place = f"metadata.{name}" if holder is inside else name
                given = f"is {json.dumps(holder[name])[:80]}" if name in holder else "is missing"
                yield self._finding("schema", entity if isinstance(entity, str) else None, f"{place} {given}", expected)

    # -- one line after the others -----------------------------------------------------------------------------------

    def _follow(self, line: _Line, findings: list[Finding]) -> None:
        lifecycle = line.body.get("lifecycle")
        machine = self._chosen.get((line.event_type, lifecycle if isinstance(lifecycle, str) else None))
        if machine is None or not (lifecycle is None or isinstance(lifecycle, str)):
            findings.append(self._unknown_lifecycle(line, lifecycle))
            return
        entity, state = line.entity_id, line.to_state
        before = machine.entities.get(entity)
        sort_key = line.body.get("sort_key") if lifecycle is not None else None
        if type(sort_key) is not int:
            sort_key = None
        machine.entities[entity] = (state, line.timestamp, sort_key)

        if (line.from_state, line.trigger, state) not in machine.edges and not (
            line.from_state is None and state == machine.initial and line.trigger == "create"
        ):
            findings.append(self._illegal(line, machine))
        if before is not None:
            findings += self._breaks(line, before, sort_key)
        elif not self._window:
            if line.from_state is not None and line.from_state != machine.initial:
                message = f"its first row starts in {line.from_state}, not in the initial state"
                findings.append(self._finding("continuity", entity, message, f"start in {machine.initial}", _PART))
            if sort_key is not None and sort_key != 1:
                message = f"rows before sort_key {sort_key} are missing"
                findings.append(self._finding("continuity", entity, message, "sort_key 1", _PART))
        if machine.kind == "step":
            self._note_step(machine, entity, state, line.body)

    def _note_step(self, machine: _Machine, entity: str, state: str, body: Mapping[str, Any]) -> None:
        if state in machine.satisfying or body.get("optional") is True:
            self._open_steps.pop(entity, None)
        elif type(workstream := body.get("task_id")) is str:
            self._open_steps[entity] = (workstream, self._line_number)

    def _breaks(self, line: _Line, before: tuple[str, str, int | None], sort_key: int | None) -> Iterator[Finding]:
        """How a row fails to follow the row before it of the same entity."""
        state, timestamp, position = before
        if line.from_state != state:
            message = f"starts in {line.from_state or 'nothing'}, but it was in {state}"
            yield self._finding("continuity", line.entity_id, message, f"start in {state}")
        if line.timestamp < timestamp:
            message = f"{line.timestamp} is before its previous row"
            yield self._finding("timestamp", line.entity_id, message, f"{timestamp} or later")
        if sort_key is not None and position is not None and sort_key != position + 1:
            message = f"sort_key {sort_key} follows {position}"
            yield self._finding("continuity", line.entity_id, message, f"sort_key {position + 1}")

    def _unknown_lifecycle(self, line: _Line, lifecycle: Any) -> Finding:
        kind = EVENT_TYPES[line.event_type]
        fitting = tuple(sorted(machine.name for machine in self._machines.values() if machine.kind == kind))
        if lifecycle is None:
            message = f"vocabulary {self._vocabulary} has no lifecycle for {line.event_type}"
        elif isinstance(lifecycle, str) and lifecycle in self._machines:
            message = f"{lifecycle} is no lifecycle of a {line.event_type}"
        else:
            message = f"unknown lifecycle {json.dumps(lifecycle)[:80]}"
        return self._finding("lifecycle", line.entity_id, message, *fitting)

    def _illegal(self, line: _Line, machine: _Machine) -> Finding:
        start, event, to = line.from_state, line.trigger, line.to_state
        kind = "legality"
        if start is None:
            message = f"{event} to {to} does not create it"
            return self._finding(kind, line.entity_id, message, f"create to {machine.initial}")
        allowed = machine.leads_to(start)
        unknown = [name for name in (start, to) if name not in machine.states]
        if unknown:
            message = f"{' and '.join(dict.fromkeys(unknown))}: no state of {machine.name}"
            allowed = allowed or tuple(sorted(machine.states))
        elif not allowed and start in machine.terminal:
            kind = "terminal"
            message = f"{start} is terminal: {event} leads nowhere"
        elif any(edge[0] == start and edge[2] == to for edge in machine.edges):
            message = f"{event} does not lead from {start} to {to}"
        else:
            message = f"no transition leads from {start} to {to}"
        return self._finding(kind, line.entity_id, message, *allowed)
