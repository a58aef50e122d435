"""Batches on disk: written before they are sent, deleted when they are answered.

A file is ``<UUIDv7>.json``: a line that says whose it is, then the body. It is the same in every library.
"""

from __future__ import annotations

import decimal
import json
import logging
import os
import re
import secrets
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, BinaryIO, List, Optional, Tuple

from .wire import submission

_LOG = logging.getLogger("headgate")
_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json")
_lock = threading.Lock()
_last: Tuple[int, int] = (0, 0)


def uuid7() -> str:
    """A UUIDv7; those of one process grow, also within a millisecond and when the clock goes back."""
    global _last
    with _lock:
        now = time.time_ns() // 1_000_000
        before, count = _last
        if now > before:
            _last = (now, 0)
        else:
            _last = (before, count + 1) if count < 0xFFF else (before + 1, 0)
        milliseconds, count = _last
    value = milliseconds << 80 | 7 << 76 | count << 64 | 2 << 62 | secrets.randbits(62)
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def renew() -> None:
    """After a fork, in the child: the lock may be held by a thread that is not there."""
    global _lock
    _lock = threading.Lock()


@dataclass(frozen=True)
class Kept:
    """A batch that an earlier life has left."""

    path: str
    idempotency_key: str
    item_key: Optional[str]
    created_ms: int
    body: bytes
    items: List[Any]


class Spool:
    """A folder of batches. One batcher a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._lock = open(os.path.join(folder, ".lock"), "wb")
        try:
            _hold(self._lock)
        except OSError as error:
            self._lock.close()
            raise ValueError(f"the spool {folder} is used by another batcher, or cannot be locked: {error}") from None

    def close(self) -> None:
        """Another batcher may use the folder."""
        self._lock.close()

    def write(self, key: str, item_key: Optional[str], body: bytes) -> str:
        """Puts a batch on disk; its path."""
        head = {"v": 1, "idempotency_key": key, "item_key": item_key, "created": time.time_ns() // 1_000_000}
        path = os.path.join(self._folder, key + ".json")
        part = path + ".part"
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(head, separators=(",", ":")).encode("utf-8") + b"\n" + body)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
            self._flush()
        except OSError:
            self._take_away(part)  # what there was room for is room again
            raise
        return path

    def _take_away(self, part: str) -> None:
        try:
            os.remove(part)
        except OSError:
            pass

    def delete(self, path: str) -> None:
        """Takes a batch away that was answered."""
        try:
            os.remove(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            _LOG.warning("%s was answered, and cannot be deleted; the next start repeats it: %s", path, error)

    def left(self) -> List[Kept]:
        """What lies there, in order. A file that cannot be read is set aside, and said."""
        found = []
        for name in sorted(os.listdir(self._folder)):
            path = os.path.join(self._folder, name)
            if name.endswith(".part"):
                os.remove(path)  # never finished, and so never sent
            elif _NAME.fullmatch(name):
                kept = _read(path)
                if kept is None:
                    _LOG.warning("%s is no spooled batch; it is set aside as %s.damaged", path, name)
                    os.replace(path, path + ".damaged")
                else:
                    found.append(kept)
        return found

    def _flush(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


if sys.platform == "win32":

    def _hold(file: BinaryIO) -> None:
        """There is no such lock there."""

else:
    import fcntl

    def _hold(file: BinaryIO) -> None:
        """Holds a file until it is closed, or the process ends; it fails if another one does."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _whole(digits: str) -> Any:
    """Exact, also where Python has no integer for it or takes none so long."""
    return int(digits) if digits != "-0" and len(digits) < 4000 else decimal.Decimal(digits)


def _read(path: str) -> Optional[Kept]:
    with open(path, "rb") as file:
        head, _, body = file.read().partition(b"\n")
    body = body.rstrip(b"\n")
    try:
        told = json.loads(head)
        items = json.loads(body, parse_int=_whole, parse_float=decimal.Decimal)
        if told["v"] != 1 or not isinstance(items, list):
            return None
        item_key = told["item_key"]
        if item_key is not None and not isinstance(item_key, str):
            return None
        submission(item_key, str(told["idempotency_key"]))
        return Kept(path, str(told["idempotency_key"]), item_key, int(told["created"]), body, items)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
