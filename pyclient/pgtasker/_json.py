"""JSON for jsonb parameters: what PostgreSQL would refuse or silently change is refused here, with the place where it
stands.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import pathlib
import re
import uuid
from typing import TYPE_CHECKING, Any

from .errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterator

# An escaped U+0000 is preceded by an even number of backslashes; an odd number means the text itself holds a
# backslash before "u0000".
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _default(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise ValueError("naive datetime")
        return value.isoformat()
    if isinstance(value, uuid.UUID | dt.date | pathlib.PurePath):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")


_encoder = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_default)


def dumps(value: Any, what: str = "value") -> str:
    """Return the JSON text of a value that jsonb can hold.

    Besides plain JSON types it takes UUID, date, aware datetime (ISO 8601), path (text) and dataclass instances
    (objects).

    Args:
        value: what to encode.
        what: the name used in the error message.

    Raises:
        InvalidValue: for NaN and infinities, U+0000, lone surrogates, naive datetimes and types without a JSON form;
            every problem is listed with its path.
    """
    try:
        text = _encoder.encode(value)
        if "\\u0000" in text and _ESCAPED_NUL.search(text):
            raise ValueError("U+0000")
        text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        problems = list(_problems(value, "", set())) or [("", str(error))]
        raise InvalidValue.of(
            f"{what} cannot be stored as jsonb: {problems[0][1]}" + (f" at {problems[0][0]}" if problems[0][0] else ""),
            problems,
        ) from error
    return text


def _problems(value: Any, path: str, above: set[int]) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if "\x00" in value:
            yield path, "U+0000 is not allowed in PostgreSQL text"
        elif any("\ud800" <= char <= "\udfff" for char in value):
            yield path, "a lone surrogate is not valid Unicode text"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield path, f"{value} is not a JSON number"
    elif isinstance(value, dt.datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            yield path, "a naive datetime has no time zone; use an aware one, e.g. datetime.now(timezone.utc)"
    elif value is None or isinstance(value, bool | int | uuid.UUID | dt.date | pathlib.PurePath):
        return
    elif id(value) in above:
        yield path, "the value contains itself"
    elif len(above) > 200:
        yield path, "nested too deeply"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str | int | float | bool | None):
                yield path, f"{type(key).__name__} cannot be a key of a JSON object"
                continue
            yield from _problems(key, f"{path}.{key}" if path else str(key), above)
            yield from _problems(item, f"{path}.{key}" if path else str(key), above | {id(value)})
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _problems(item, f"{path}[{index}]", above | {id(value)})
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _problems(
                getattr(value, field.name), f"{path}.{field.name}" if path else field.name, above | {id(value)}
            )
    else:
        yield path, f"{type(value).__name__} has no JSON form"


def printable(text: str, limit: int) -> str:
    """Return text that jsonb can hold in any case: U+0000 and lone surrogates escaped, the middle left out beyond
    ``limit``.
    """
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
