"""Batches on disk: written before they are sent, deleted when they are answered, kept apart when they are refused.

A file is ``<UUIDv7>.json``: a line that says whose it is, then the body. It is the same in every library.
"""

from __future__ import annotations

import decimal
import errno
import json
import logging
import os
import re
import time
from dataclasses import dataclass
from io import FileIO
from typing import Any, Dict, List, Optional, Set, Tuple, Union

from .owner import Owner
from .uuids import saw
from .wire import submission

_LOG = logging.getLogger("headgate")
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(_UUID + r"\.json")
_NAMED = re.compile(_UUID)
_STATE_BYTES = 4096
_FILE_BYTES_MIN = 4096
#: Lines of ``rejected`` with these codes stay: Headgate has not refused what they hold.
_KEPT_CODES = frozenset(("EXPIRED", "MISMATCH"))
#: What says that a file is no business of this process, and will not be by waiting.
_CLOSED = frozenset((errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP))


@dataclass(frozen=True)
class Kept:
    """A batch that was read from its file."""

    item_key: Optional[str]
    stream: Optional[str]
    body: bytes
    items: List[Any]


@dataclass(frozen=True)
class Mark:
    """What is in hand: since when Headgate may have taken it, and what of it is left."""

    key: str
    #: By the wall clock, in seconds; None: Headgate has not taken it.
    tried: Optional[float]
    parts: Optional[List[Tuple[int, int]]]


def cost(size: int) -> int:
    """What a file of this size takes of the room."""
    return max(size, _FILE_BYTES_MIN)


class Spool:
    """A folder of batches. One batcher a folder."""

    def __init__(self, folder: str, room: int) -> None:
        self.folder, self._room = folder, room
        self._rejected = os.path.join(folder, "rejected")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._owner = Owner(folder)
        try:
            self._state = self._open_state()
            #: Batches that an earlier life has left, in order, and their bytes.
            self.left = self._scan()
        except BaseException:
            self._owner.release()
            raise
        self._refusals = self._scan_rejected()
        self._told: Tuple[str, Set[str]] = ("", set())
        self.rejected_lost = 0

    def _open_state(self) -> FileIO:
        path = os.path.join(self.folder, ".state")
        file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600), "r+")
        if os.fstat(file.fileno()).st_size < _STATE_BYTES:
            # Its room is taken now, so that a full disk does not matter later.
            file.write(b" " * (_STATE_BYTES - 1) + b"\n")
            os.fsync(file.fileno())
        return file

    def _scan(self) -> List[Tuple[str, int]]:
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if _NAMED.match(entry.name):
                    saw(entry.name)
                if entry.name.endswith(".json.part"):
                    os.remove(entry.path)  # never finished, and so never sent
                elif _NAME.fullmatch(entry.name):
                    found.append((entry.name[:-5], entry.stat().st_size))
        found.sort()
        return found

    def _scan_rejected(self) -> Dict[str, int]:
        try:
            with os.scandir(self._rejected) as entries:
                found = {entry.name: entry.stat().st_size for entry in entries if _NAME.fullmatch(entry.name)}
        except FileNotFoundError:
            return {}
        for name in found:
            saw(name)
        return dict(sorted(found.items()))

    def holds(self) -> bool:
        """Whether the folder is still this program's. While it cannot be looked at, it is."""
        try:
            return self._owner.holds() or not os.path.isdir(self.folder)
        except OSError:
            return True

    def close(self) -> None:
        """Another batcher may use the folder."""
        self._state.close()
        self._owner.release()

    def forget(self) -> None:
        """After a fork, in the child: the folder is the parent's."""
        self._state.close()
        self._owner.forget()

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key + ".json")

    def write(self, key: str, item_key: Optional[str], stream: Optional[str], body: bytes) -> int:
        """Puts a batch on disk; its bytes there."""
        head = {"v": 1, "idempotency_key": key, "item_key": item_key, "stream": stream,
                "created": time.time_ns() // 1_000_000}
        data = json.dumps(head, separators=(",", ":")).encode("utf-8") + b"\n" + body
        path = self._path(key)
        part = path + ".part"
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
            _flush(self.folder)
        except OSError:
            _take_away(part)  # what there was room for is room again
            raise
        return len(data)

    def read(self, key: str) -> Union[Kept, str, None]:
        """A batch; what is wrong with its file, which is set aside then; None, if it is gone."""
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                kept = _parsed(file.read(), key)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
            kept = str(error)
        if isinstance(kept, str):
            os.replace(path, path + ".damaged")
        return kept

    def delete(self, key: str) -> None:
        """Takes a batch away that was answered."""
        try:
            os.remove(self._path(key))
        except FileNotFoundError:
            pass
        except OSError as error:
            _LOG.warning("cannot delete %s, which Headgate has answered; the next start sends it again, without creating duplicates: %s", self._path(key), error)

    def mark(self, mark: Mark) -> None:
        """Says what is in hand, in the room that was taken for it."""
        parts = None if mark.parts is None else [list(part) for part in mark.parts]
        tried = None if mark.tried is None else int(mark.tried * 1000)
        text = json.dumps({"batch": mark.key, "tried": tried, "parts": parts}, separators=(",", ":"))
        self._state.seek(0)
        self._state.write(text.encode("ascii").ljust(_STATE_BYTES - 1) + b"\n")
        os.fsync(self._state.fileno())

    def marked(self, key: str, count: int) -> Mark:
        """What was said of a batch of so many items; nothing, where that is of another one, or makes no sense."""
        self._state.seek(0)
        try:
            told = json.loads(self._state.read(_STATE_BYTES * 2))
            tried, parts = told["tried"], told["parts"]
            if told["batch"] == key and (tried is None or type(tried) is int):
                found = None if parts is None else [(int(start), int(size)) for start, size in parts]
                if found is None or _whole(found, count):
                    return Mark(key, None if tried is None else tried / 1000, found)
        except (ValueError, KeyError, TypeError):
            pass
        return Mark(key, None, None)

    def reject(self, key: str, line: Dict[str, Any], items: bytes) -> None:
        """Keeps a refused part of a batch: one file for the batch, each key once."""
        name, path = key + ".json", os.path.join(self._rejected, key + ".json")
        if self._told[0] != key:
            self._told = (key, _keys(path))
            _cut_to_lines(path)
        if line["idempotency_key"] in self._told[1]:
            return
        head = json.dumps(line, separators=(",", ":"))[:-1].encode("ascii")
        self._refusals[name] = self._append(path, head + b',"items":' + items + b"}\n")
        self._told[1].add(line["idempotency_key"])
        self._make_room(name)

    def _append(self, path: str, text: bytes) -> int:
        os.makedirs(self._rejected, mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
            before = file.tell()
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.truncate(path, before)  # half a line is none
                raise
        if not before:
            _flush(self._rejected)
        return before + len(text)

    def _make_room(self, newest: str) -> None:
        """Lets the oldest refusals go that are too many."""
        taken = sum(cost(size) for size in self._refusals.values())
        for name in sorted(self._refusals):
            if taken <= self._room // 10:
                return
            path = os.path.join(self._rejected, name)
            if name == newest or _codes(path) & _KEPT_CODES:
                continue
            _take_away(path)
            taken -= cost(self._refusals.pop(name))
            self.rejected_lost += 1
            if self.rejected_lost == 1:
                _LOG.warning("%s is full, so its oldest files are deleted; to keep more, raise spool_bytes", self._rejected)


def _flush(folder: str) -> None:
    """The names are on disk, too, where folders can be flushed."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # Windows opens none
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_away(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        pass


def _whole(parts: List[Tuple[int, int]], count: int) -> bool:
    """Whether parts are the rest of a batch."""
    at = parts[0][0] if parts else -1
    for start, size in parts:
        if start != at or size < 1:
            return False
        at += size
    return at == count


def _exact(digits: str) -> Any:
    """Exact, also where Python has no integer for it or takes none so long."""
    return int(digits) if digits != "-0" and len(digits) < 4000 else decimal.Decimal(digits)


def _parsed(text: bytes, key: str) -> Union[Kept, str]:
    head, _, body = text.partition(b"\n")
    body = body.rstrip(b"\n")
    try:
        told = json.loads(head)
        items = json.loads(body, parse_int=_exact, parse_float=decimal.Decimal)
        item_key, stream = told["item_key"], told.get("stream")
        if told["v"] != 1 or told["idempotency_key"] != key:
            return "its version is unknown, or its key is not its file name"
        if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
            return "its second line is not a list of items"
        if not isinstance(item_key, (str, type(None))) or not isinstance(stream, (str, type(None))):
            return "its first line is wrong"
        submission(item_key, key)
        return Kept(item_key, stream or None, body, items)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return str(error) or type(error).__name__


def _whole_lines(path: str) -> bytes:
    """What a file of refusals has, without a line that was never finished."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return b""
    return text[: text.rfind(b"\n") + 1]


def _cut_to_lines(path: str) -> None:
    """Takes a line away that was never finished."""
    whole = len(_whole_lines(path))
    if os.path.exists(path) and os.path.getsize(path) != whole:
        os.truncate(path, whole)


def _lines(path: str) -> List[Dict[str, Any]]:
    found = []
    for line in _whole_lines(path).split(b"\n"):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict):
            found.append(told)
    return found


def _keys(path: str) -> Set[str]:
    return {str(line.get("idempotency_key")) for line in _lines(path)}


def _codes(path: str) -> Set[str]:
    errors = (line.get("error") for line in _lines(path))
    return {str(error.get("code")) for error in errors if isinstance(error, dict)}
