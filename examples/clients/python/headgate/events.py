"""Server-Sent Events out of bytes, however they are cut.

An event that is not complete when the connection ends does not count, and neither does its id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator, List, Optional

#: No message of Headgate's is so long; whatever says so is not Headgate.
EVENT_BYTES_MAX = 64 << 20
_LINE_END = re.compile(rb"\r\n|\r|\n")
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Event:
    """One event; ``id`` is the last one that was said."""

    data: str
    id: Optional[str]


class Parser:
    """Takes bytes, gives events."""

    def __init__(self) -> None:
        self._part: List[bytes] = []
        self._data: List[bytes] = []
        self._size = 0
        self._id: Optional[str] = None
        self._after_cr = False
        self._begun = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """What is complete with these bytes."""
        if self._after_cr and data.startswith(b"\n"):
            data, self._after_cr = data[1:], False
        if not data:
            return
        self._after_cr = data.endswith(b"\r")
        self._size += len(data)
        if self._size > EVENT_BYTES_MAX:
            raise ValueError("an event is too long")
        *ended, rest = _LINE_END.split(data)
        for piece in ended:
            line = b"".join([*self._part, piece])
            self._part = []
            if not self._begun:
                self._begun = True
                line = line[len(_MARK):] if line.startswith(_MARK) else line
            if line:
                self._line(line)
                continue
            self._size = 0
            if self._data:
                text, self._data = b"\n".join(self._data).decode("utf-8", "replace"), []
                yield Event(text, self._id)
        if rest:
            self._part.append(rest)

    def _line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if name == b"data":
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
