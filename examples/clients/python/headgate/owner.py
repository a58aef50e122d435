"""One program a spool: who has it, and whether that program is still there.

The lock is for the order of items and for counts; nothing is lost without it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import uuid
from typing import Any, BinaryIO, Dict, Optional, Set

from .errors import HeadgateError

_FOREIGN_SECONDS = 600.0
_BROKEN_SECONDS = 60.0
#: Those of this process.
_here: Set[str] = set()


class Owner:
    """The claim of this process to a folder."""

    def __init__(self, folder: str) -> None:
        self._folder, self._path = folder, os.path.join(folder, ".owner")
        self.id = str(uuid.uuid4())
        self._file = open(os.path.join(folder, ".lock"), "ab")
        try:
            self._locked = _hold(self._file)
            self._claim()
        except BaseException:
            self._file.close()
            raise
        _here.add(self.id)

    def _claim(self) -> None:
        for _ in range(2):
            if self._make():
                return
            found = self._read(self._path)
            if found is None:
                continue  # it has gone meanwhile
            if not self._is_dead(found) or not self._take_over(found):
                break
        raise in_use(self._folder)

    def _make(self) -> bool:
        told = {"host": socket.gethostname(), "boot": _boot(), "pid": os.getpid(), "started": _started(os.getpid()),
                "lock": self._locked, "id": self.id}
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(told).encode("utf-8") + b"\n")
        return True

    def _read(self, path: str) -> Optional[bytes]:
        try:
            with open(path, "rb") as file:
                return file.read(4096)
        except FileNotFoundError:
            return None

    def _is_dead(self, found: bytes) -> bool:
        try:
            told = json.loads(found)
            assert isinstance(told, dict) and isinstance(told["pid"], int)
        except (ValueError, KeyError, AssertionError):
            return self._young(_BROKEN_SECONDS, [".owner"]) is False
        boot = told.get("boot")
        here = boot is not None and boot == _boot()
        if here and told.get("lock") is True and self._locked:
            return told.get("id") not in _here
        if told.get("host") != socket.gethostname():
            return self._young(_FOREIGN_SECONDS, os.listdir(self._folder)) is False
        return (boot is not None and not here) or not _lives(told)

    def _young(self, seconds: float, names: "list[str]") -> Optional[bool]:
        """Whether one of these files is younger; None, if that cannot be said."""
        now = time.time()
        try:
            return any(now - os.stat(os.path.join(self._folder, name)).st_mtime < seconds
                       for name in names if name != ".lock")
        except OSError:
            return None

    def _take_over(self, judged: bytes) -> bool:
        aside = f"{self._path}.{self.id}"
        try:
            os.rename(self._path, aside)
        except OSError:
            return False
        taken = self._read(aside)
        if taken != judged:
            try:
                os.link(aside, self._path)  # somebody else was faster: it is his
            except OSError:
                pass
        os.remove(aside)
        return taken == judged

    def holds(self) -> bool:
        """Whether the folder is still this process's."""
        found = self._read(self._path)
        return found is not None and self.id.encode("ascii") in found

    def release(self) -> None:
        """Another program may have the folder."""
        if self.id in _here:
            _here.discard(self.id)
            try:
                if self.holds():
                    os.remove(self._path)
            except OSError:
                pass  # whoever comes next sees that this process is gone
        self._file.close()

    def forget(self) -> None:
        """After a fork, in the child: it is the parent's."""
        _here.discard(self.id)
        self._file.close()


def in_use(folder: str) -> HeadgateError:
    """For a folder that another program has."""
    message = f"the spool {folder} is used by another program or batcher; give each its own directory"
    return HeadgateError("SPOOL_IN_USE", message)


def _boot() -> Optional[str]:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return None


def _started(pid: int) -> Optional[str]:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _lives(told: Dict[str, Any]) -> bool:
    """Whether the process is there that has written this, on this machine."""
    pid = told["pid"]
    if pid == os.getpid():
        return told.get("id") in _here
    if sys.platform == "win32":
        return True  # nobody can say: a signal would end it
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    started = told.get("started")
    return started is None or _started(pid) in (None, started)


if sys.platform == "win32":

    def _hold(file: BinaryIO) -> bool:
        """There is no such lock there."""
        return False

else:
    import fcntl

    def _hold(file: BinaryIO) -> bool:
        """Holds a file until it is closed, or the process ends; it fails if another one does."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise in_use(os.path.dirname(file.name)) from None
        except OSError:
            return False  # the file system has none
        return True
