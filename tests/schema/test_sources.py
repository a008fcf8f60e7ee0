"""What must hold for source files: they parse, the engine names no state, Python holds no rule, the wheel is whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pglast.parser import ParseError, parse_sql

from pgtasker import migrate

ROOT = Path(__file__).resolve().parents[2]

ENGINE = sorted(path for path in (ROOT / "sql").rglob("*.sql") if path.parent.name != "vocabularies")
MIGRATIONS = sorted((ROOT / "migrations").rglob("*.sql"))
PACKAGE = sorted(
    path
    for path in (ROOT / "pyclient" / "pgtasker").rglob("*.py")
    if not {"migrations", "sql"} & set(path.parts[-3:-1])
)

# What these folders print or try out is text for people and examples, not a decision.
TEXT_ONLY = {"cli", "demo"}


def first_column(path: Path) -> set[str]:
    """Return the first literals of the rows that a catalogue file inserts."""
    return set(re.findall(r"^\s*\(\s*'([a-z_]+)'", path.read_text(), flags=re.MULTILINE))


@pytest.fixture(scope="module")
def states() -> set[str]:
    """State names of every vocabulary, but for those that are also a word of the engine's own (a phase, a guard)."""
    vocabularies = "\n".join(path.read_text() for path in (ROOT / "sql" / "vocabularies").glob("*.sql"))
    names = set(re.findall(r'"state":\s*"([^"]+)"', vocabularies))
    kernel = ROOT / "sql" / "kernel"
    # `error` is also a severity and a key of a report.
    words = first_column(kernel / "lifecycle_phases.sql") | first_column(kernel / "guards.sql") | {"error"}
    assert {"pending", "blocked_by_failures"} <= words
    assert len(names - words) >= 12
    return names - words


# The seed's function answers with words of its own; these are also states.
AGREED = {
    "sql/observe/get_task_execution_context.sql": {"waiting_for_retry", "waiting_for_dependencies"},
}


def without_comments(text: str) -> str:
    """Return SQL without its comments; what people read may name a state."""
    text = re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"\bcomment on\b[^']*'(?:[^']|'')*';", " ", text, flags=re.DOTALL | re.IGNORECASE)


def named_states(text: str, states: set[str]) -> set[str]:
    """Return the states that SQL names: as a literal of its own, or whatever it compares a state column with."""
    bare = without_comments(text)
    literals = set(re.findall(r"'((?:[^']|'')*)'", bare)) & states
    operator = r"(?:=|<>|!=|\bin\b|\bnot\s+in\b|\blike\b|\bis\s+(?:not\s+)?distinct\s+from\b)"
    return literals | set(re.findall(rf"\bstate\s*{operator}\s*\(?\s*'([^']*)'", bare.replace("_state", " state")))


def test_every_sql_file_parses() -> None:
    problems = []
    for path in (*ENGINE, *(ROOT / "sql" / "vocabularies").glob("*.sql"), *MIGRATIONS):
        try:
            parse_sql(path.read_text())
        except ParseError as error:
            problems.append(f"{path.relative_to(ROOT)}: {error}")
    assert problems == []
    with pytest.raises(ParseError):
        parse_sql("create fnction f() returns int language sql return 1")


def test_every_sql_file_ends_its_last_statement() -> None:
    """Files are put one behind the other in the offline script."""
    unfinished = [
        str(path.relative_to(ROOT))
        for path in (
            *ENGINE,
            *(ROOT / "sql" / "vocabularies").glob("*.sql"),
            *(ROOT / "migrations" / "sql").glob("*.sql"),
        )
        if not without_line_comments(path.read_text()).rstrip().endswith(";")
    ]
    assert unfinished == []


def without_line_comments(text: str) -> str:
    return re.sub(r"--[^\n]*$", "", text, flags=re.MULTILINE)


def test_the_engine_names_no_state(states: set[str]) -> None:
    offenders = {}
    for path in ENGINE:
        name = str(path.relative_to(ROOT))
        found = named_states(path.read_text(), states) - AGREED.get(name, set())
        if found:
            offenders[name] = found
    assert offenders == {}


def test_a_named_state_is_seen() -> None:
    states = {"in_progress"}
    assert named_states("if v = 'in_progress' then", states) == {"in_progress"}
    assert named_states("case when t.to_state not in ('error', 'x') then 1 end", states) == {"error"}
    assert named_states("where s.state is distinct from 'pending'", states) == {"pending"}
    assert named_states("-- 'in_progress'\nselect p ->> 'error', 'not in_progress'", states) == set()
    assert named_states("comment on table x is 'in_progress';", states) == set()


def python_literals(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and value of each string in Python that is not a docstring."""
    tree = ast.parse(text)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def python_states(text: str, states: set[str]) -> set[tuple[int, str]]:
    """Return the states that Python names outside docstrings, and whatever it compares something called state with.

    Phases may be named: they are the part of the contract that says what a state means.
    """
    distinctive = re.compile(rf"\b({'|'.join(sorted(state for state in states if '_' in state))})\b")
    found = {(line, value) for line, value in python_literals(text) if value in states or distinctive.search(value)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            about_state = any(re.search(r"\bstate\b|_state\b", ast.unparse(part)) for part in parts)
            for part in parts:
                if about_state and isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found.add((part.lineno, part.value))
    return found


def test_python_holds_no_rule(states: set[str]) -> None:
    """A rule needs a state to speak of. The client passes states on, it does not know them."""
    offenders = []
    for path in PACKAGE:
        if path.relative_to(ROOT / "pyclient" / "pgtasker").parts[0] not in TEXT_ONLY:
            found = python_states(path.read_text(), states)
            offenders += [f"{path.relative_to(ROOT)}:{line}: {value!r}" for line, value in sorted(found)]
    assert offenders == []


def test_a_rule_in_python_is_seen() -> None:
    text = '''
def f(task):
    """About in_progress."""
    if task.state == "done" or task.phase == "succeeded":
        return "select 1 where to_state = 'in_progress'"
'''
    assert python_states(text, {"in_progress"}) == {(4, "done"), (5, "select 1 where to_state = 'in_progress'")}


def test_python_computes_no_retry_delay() -> None:
    """The arithmetic of retries is the database's: nothing in the client raises a base to the number of an attempt."""
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in PACKAGE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow | ast.Mult)
        and any(
            isinstance(part, ast.Name | ast.Attribute) and "attempt" in ast.unparse(part) for part in ast.walk(node)
        )
    ]
    assert offenders == []


def build(kind: str, source: Path, target: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@pytest.mark.parametrize("by_way_of_sdist", [False, True])
def test_the_wheel_carries_the_sql(tmp_path: Path, by_way_of_sdist: bool) -> None:
    """The links inside the package become files in the wheel, and the installed tree is the tree."""
    source = ROOT
    if by_way_of_sdist:
        with tarfile.open(build("sdist", ROOT, tmp_path)) as archive:
            archive.extractall(tmp_path / "unpacked", filter="data")
        (source,) = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(build("wheel", source, tmp_path)) as wheel:
        packed = {name for name in wheel.namelist() if name.startswith("pgtasker/") and "__pycache__" not in name}
        wheel.extractall(tmp_path / "installed")
    for folder in ("sql", "migrations"):
        here = {
            f"pgtasker/{path.relative_to(ROOT)}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert here <= packed, sorted(here - packed)
    assert {"pgtasker/py.typed", "pgtasker/web/static/htmx.min.js", "pgtasker/web/templates/base.html"} <= packed
    program = "from pgtasker import migrate; print(migrate.__file__, migrate.sql_tree_checksum())"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path / "installed"), "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert printed == [str(tmp_path / "installed" / "pgtasker" / "migrate.py"), migrate.sql_tree_checksum()]
