"""What may go into jsonb, and how the refusal names the place."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from pgtasker import InvalidDefinition, InvalidValue
from pgtasker._json import dumps, printable


@dataclass
class Point:
    x: int
    tags: list[str]


def test_values_with_an_obvious_json_form_are_taken() -> None:
    moment = dt.datetime(2026, 3, 29, 2, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    value = {
        "uuid": UUID(int=1),
        "at": moment,
        "day": dt.date(2026, 1, 2),
        "path": PurePosixPath("/a/b"),
        "point": Point(1, ["ä"]),
        "plain": [None, True, 1, 1.5, "text", {"nested": []}],
    }
    assert json.loads(dumps(value)) == {
        "uuid": "00000000-0000-0000-0000-000000000001",
        "at": "2026-03-29T02:30:00+02:00",
        "day": "2026-01-02",
        "path": "/a/b",
        "point": {"x": 1, "tags": ["ä"]},
        "plain": [None, True, 1, 1.5, "text", {"nested": []}],
    }


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        (float("nan"), "", "nan is not a JSON number"),
        ({"a": [1, float("inf")]}, "a[1]", "inf is not a JSON number"),
        ({"a": {"b": "x\x00y"}}, "a.b", "U+0000"),
        ({"k\x00": 1}, "k\x00", "U+0000"),
        (["\ud800"], "[0]", "surrogate"),
        ({"at": dt.datetime(2026, 1, 1)}, "at", "no time zone"),
        (Point(1, ["\x00"]), "tags[0]", "U+0000"),
        ({"s": {1, 2}}, "s", "set has no JSON form"),
        ({(1, 2): 3}, "", "tuple cannot be a key"),
    ],
)
def test_what_jsonb_cannot_hold_is_refused_with_its_place(value: Any, path: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        dumps(value, "context")
    assert caught.value.problems[0]["path"] == path
    assert message in caught.value.problems[0]["message"]
    assert caught.value.sqlstate == "TK400"
    assert isinstance(caught.value, InvalidDefinition) and isinstance(caught.value, ValueError)
    assert "context cannot be stored" in str(caught.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(InvalidValue) as caught:
        dumps({"a": float("nan"), "b": "\x00", "c": 1})
    assert [problem["path"] for problem in caught.value.problems] == ["a", "b"]


def test_a_value_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    with pytest.raises(InvalidValue, match="contains itself"):
        dumps(value)


def test_a_backslash_before_u0000_is_text_and_not_a_nul() -> None:
    text = "a\\u0000b"
    assert json.loads(dumps(text)) == text
    assert json.loads(dumps("\\\\u0000")) == "\\\\u0000"


def test_printable_text_can_always_be_stored() -> None:
    text = printable("a\x00b\udcffc" + "x" * 1000, 100)
    text.encode()
    assert "\x00" not in text and "characters left out" in text
