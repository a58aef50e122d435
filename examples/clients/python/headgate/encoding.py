"""JSON that is exact: decimals as they are, dates in UTC, no NaN, no text that is not Unicode.

What is plain goes through the encoder of the standard library; the rest, and whatever that one refuses, goes
through one of its own, which also knows the path of what cannot be sent.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from typing import Any, Callable, Iterator, List, Mapping, Optional, Tuple

from .errors import invalid

# What holds itself ends with a RecursionError, here as below.
_PLAIN = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_QUOTED = json.JSONEncoder(ensure_ascii=False).encode
_FINITE = float.__repr__


def encode(value: Any) -> bytes:
    """The value as compact JSON in UTF-8."""
    try:
        return _PLAIN(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        pass
    parts: List[str] = []
    try:
        _write(value, "", parts.append)
    except RecursionError:
        raise invalid("it is nested too deeply, or contains itself") from None
    return "".join(parts).encode("utf-8")


def is_object(value: Any) -> bool:
    """Whether it is encoded as a JSON object."""
    return isinstance(value, (dict, Mapping)) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def key_of(item: Any, field: str) -> str:
    """The text of the field that identifies an item, looked up as Headgate does in the flattened item."""
    if type(item) is dict and "." not in field and set(map(type, item)) == {str}:
        # Nothing nested can have a name without a dot, and no other name becomes this text.
        found = [item[field]] if field in item else []
    else:
        found = list(_fields(item, field))
    if len(found) > 1:
        raise invalid(f'the item has the field "{field}" twice')
    text = _scalar_text(found[0]) if found else None
    if text is None:
        raise invalid(f'the item has no text, number or boolean at "{field}", the item key')
    if not 1 <= len(text.encode("utf-8")) <= 512:
        raise invalid(f'the value at "{field}", the item key, must have 1 to 512 bytes')
    return text


def _members(value: Any) -> Iterator[Tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield _name(name, ""), member
    else:
        for field in dataclasses.fields(value):
            yield field.name, getattr(value, field.name)


def _fields(value: Any, path: str) -> Iterator[Any]:
    for name, member in _members(value):
        if name == path:
            yield member
        elif path.startswith(name + ".") and is_object(member):
            yield from _fields(member, path[len(name) + 1 :])


def _scalar_text(value: Any) -> Optional[str]:
    if type(value) is int:
        return int.__repr__(value)
    if value is None or isinstance(value, (list, tuple)) or is_object(value):
        return None
    parts: List[str] = []
    _write(value, "", parts.append)
    text = "".join(parts)
    if text == "null":
        return None
    return str(json.loads(text)) if text.startswith('"') else text


def _name(name: Any, path: str) -> str:
    if isinstance(name, str):
        return str(name)
    if name is True or name is False:
        return "true" if name else "false"
    if isinstance(name, (int, uuid.UUID)):
        return str(name)
    raise invalid(f"{_at(path)} has a key of the type {type(name).__name__}; keys must be text")


def _at(path: str) -> str:
    return path or "the value"


def _write(value: Any, path: str, put: Callable[[str], Any]) -> None:
    if value is None or value is True or value is False:
        put("null" if value is None else "true" if value else "false")
    elif isinstance(value, enum.Enum) and not isinstance(value, (str, int, float)):
        _write(value.value, path, put)
    elif isinstance(value, str):
        put(_text(value, path))
    elif isinstance(value, (int, float, decimal.Decimal)):
        put(_number(value, path))
    elif is_object(value):
        _write_object(value, path, put)
    elif isinstance(value, (list, tuple)):
        put("[")
        for index, element in enumerate(value):
            if index:
                put(",")
            _write(element, f"{path}[{index}]", put)
        put("]")
    elif isinstance(value, (datetime.datetime, datetime.date)):
        put(f'"{_date(value, path)}"')
    elif isinstance(value, uuid.UUID):
        put(f'"{value}"')
    else:
        raise invalid(f"{_at(path)} has the type {type(value).__name__}, which JSON cannot represent")


def _write_object(value: Any, path: str, put: Callable[[str], Any]) -> None:
    put("{")
    for index, (name, member) in enumerate(_members(value)):
        inside = f"{path}.{name}" if path else name
        if index:
            put(",")
        put(_text(name, inside))
        put(":")
        _write(member, inside, put)
    put("}")


def _text(value: str, path: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        shown = path.encode("utf-8", "backslashreplace").decode("utf-8")
        raise invalid(f"{_at(shown)} is not valid Unicode: it has half of a surrogate pair") from None
    return _QUOTED(str.__str__(value))


def _number(value: Any, path: str) -> str:
    if isinstance(value, int):
        return int.__repr__(value)
    if not (value.is_finite() if isinstance(value, decimal.Decimal) else math.isfinite(value)):
        raise invalid(f"{_at(path)} is {value}, which JSON cannot represent")
    return str(value) if isinstance(value, decimal.Decimal) else _FINITE(value)


def _date(value: datetime.date, path: str) -> str:
    if not isinstance(value, datetime.datetime):
        return value.isoformat()
    if value.utcoffset() is None:
        raise invalid(f"{_at(path)} is a date without a time zone; add one")
    return value.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat() + "Z"
