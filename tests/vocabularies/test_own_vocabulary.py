"""docs/vocabularies.md is run as it stands: the definition, an order from placed to returned, mistakes, later changes."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg

from tests.docs.documents import ROOT, comparable, fences

DOCUMENT = ROOT / "docs" / "vocabularies.md"


def psql(conn: psycopg.Connection[Any], script: str, variables: dict[str, str]) -> str:
    """Run a script as psql would, as far as the document uses it: `\\set`, `\\gset`, `:'variable'`; the last answer."""
    output = ""
    for line in re.findall(r"^\\set (\w+) `cat (.+)`$", script, re.M):
        variables[line[0]] = (ROOT / line[1]).read_text()
    script = re.sub(r"^\\set .*\n", "", script, flags=re.M)
    for statement, ending in re.findall(r"(.+?)(;|\\gset)\s*(?:\n|$)", script, re.S):
        text = re.sub(r":'(\w+)'", lambda match: "'" + variables[match[1]].replace("'", "''") + "'", statement)
        try:
            cursor = conn.execute(text.encode())
        except psycopg.Error as error:
            return f"ERROR: {error.diag.message_primary}\nHINT: {error.diag.message_hint}"
        names = [column.name for column in cursor.description or []]
        rows = cursor.fetchall()
        if ending == "\\gset":
            variables.update({name: str(value) for name, value in zip(names, rows[0], strict=True)})
            continue
        lines = [
            " | ".join(json.dumps(v) if isinstance(v, dict) else "" if v is None else str(v) for v in row)
            for row in rows
        ]
        output = "\n".join([" | ".join(names), "---", *lines])
    return output


def test_the_document(module_conn: psycopg.Connection[Any]) -> None:
    variables: dict[str, str] = {}
    checked = 0
    for fence in fences(DOCUMENT):
        assert fence.language == "sql", fence.line
        answer = psql(module_conn, fence.body, variables)
        assert fence.output is not None, fence.line
        promised = comparable(fence.output)
        found = comparable(answer)
        if "problem(s)" in fence.output:  # the first of them follows in the message
            found = [line.split(": ")[0] + ": " + line.split(": ")[1] for line in found]
        assert found == promised, fence.line
        checked += 1
    assert checked >= 12
    assert module_conn.execute(
        "select count(*) from tasker.check_consistency(%s)", [variables["order"]]
    ).fetchone() == (0,)


def test_every_mistake_of_the_document_is_named(module_conn: psycopg.Connection[Any]) -> None:
    (mistaken,) = [fence.body for fence in fences(DOCUMENT) if "shop2" in fence.body]
    try:
        module_conn.execute(mistaken.encode())
    except psycopg.Error as error:
        assert error.sqlstate == "TK400"
        problems = json.loads(error.diag.message_detail or "")["problems"]
    told = " ".join(f"{problem['path']} {problem['message']}" for problem in problems)
    for word in ("ordered", "payed", "magic", "sent", "shipped", "all_done", "lost"):
        assert word in told, (word, told)
    assert module_conn.execute("select from tasker.vocabularies where vocabulary = 'shop2'").fetchone() is None
