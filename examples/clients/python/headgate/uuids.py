"""UUIDs that grow: the names of batches, whose order is the order of their items."""

from __future__ import annotations

import secrets
import threading
from typing import Tuple

_lock = threading.Lock()
_last: Tuple[int, int] = (0, 0)


def uuid7(wall: float) -> str:
    """A UUIDv7 of this time; those of one process grow, also within a millisecond and when the clock goes back."""
    global _last
    with _lock:
        now = int(wall * 1000)
        before, count = _last
        if now > before:
            _last = (now, 0)
        else:
            _last = (before, count + 1) if count < 0xFFF else (before + 1, 0)
        milliseconds, count = _last
    value = milliseconds << 80 | 7 << 76 | count << 64 | 2 << 62 | secrets.randbits(62)
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def saw(name: str) -> None:
    """After a UUIDv7 of an earlier life, later ones are greater, whatever the clock says."""
    global _last
    with _lock:
        milliseconds = int(name[:8] + name[9:13], 16)
        if milliseconds >= _last[0]:
            _last = (milliseconds, 0xFFF)


def renew() -> None:
    """After a fork, in the child: the lock may be held by a thread that is not there."""
    global _lock
    _lock = threading.Lock()
