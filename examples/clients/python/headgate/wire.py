"""What goes into requests, and what is read from answers."""

from __future__ import annotations

import time
import urllib.parse
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from .errors import HeadgateError


@dataclass(frozen=True)
class RequestState:
    """The status of a request."""

    request_id: str
    #: ``accepted`` until every sink has it; then ``processed``, ``failed``, ``stale``, …
    status: str
    errors: List[str]
    sinks: List[Dict[str, Any]]
    stream: Optional[str]
    items_received: Optional[int]
    processed_at: Optional[str]

    @property
    def is_open(self) -> bool:
        """Whether the request waits for a sink."""
        return self.status == "accepted" or (self.status == "removed" and bool(self.sinks) and not self.processed_at)


@dataclass(frozen=True)
class FlushResult:
    """Whether all items were accepted or rejected, and the rest: items in memory, batches on disk."""

    done: bool
    queued: int
    in_flight: int
    spooled: int
    #: ``ok``, ``retrying`` or ``blocked``, and the code of the last failure.
    state: str
    code: Optional[str]


@dataclass(frozen=True)
class Stats:
    """The counters of a batcher, in items; ``retries`` in requests, ``spooled`` and ``spooled_bytes`` on disk in batches."""

    queued: int
    in_flight: int
    accepted: int
    rejected: int
    dropped: int
    replaced: int
    retries: int
    oldest: float
    spooled: int
    spooled_bytes: int
    #: Files of the spool that were no batch, and were set aside.
    damaged: int
    #: Files of ``rejected`` that were let go, because there were too many.
    rejected_lost: int
    state: str
    code: Optional[str]


@dataclass(frozen=True)
class Item:
    """An item of the data pool, as a reader has it."""

    key: str
    fields: Dict[str, Any]
    updated_at: str
    seq: int


@dataclass(frozen=True)
class Submission:
    """A batch as it goes out."""

    item_key: Optional[str]
    idempotency_key: str
    #: The stream that it is meant for; None: whichever the key has.
    stream: Optional[str]
    body: bytes
    #: How many items the body has.
    count: int

    @property
    def path(self) -> str:
        """Where it goes: another stream of the key is refused."""
        return ingest_path(self.stream)

    def headers(self) -> Dict[str, Any]:
        """What it says about itself."""
        return submission(self.item_key, self.idempotency_key)


def ingest_path(stream: Optional[str]) -> str:
    """Where items go."""
    return "/api/ingest" if stream is None else f"/api/ingest?stream={quoted(stream)}"


def submission(item_key: Optional[str], idempotency_key: str) -> Dict[str, Any]:
    """The headers of a request that submits."""
    if not 1 <= len(idempotency_key) <= 255 or not all("!" <= character <= "~" for character in idempotency_key):
        raise ValueError("an idempotency key must have 1 to 255 visible ASCII characters")
    headers: Dict[str, Any] = {"Content-Type": "application/json", "Idempotency-Key": idempotency_key}
    if item_key is not None:
        if not item_key.strip() or not item_key.isprintable():
            raise ValueError("item_key must be the name of a field, without control characters")
        headers["X-Item-Key"] = item_key.encode("utf-8")
    return headers


class Patience:
    """How long and how often it is asked what became of a request."""

    def __init__(self, timeout: float) -> None:
        self._timeout, self._pause = timeout, 0.01
        self._deadline = time.monotonic() + timeout

    @property
    def left(self) -> float:
        """Seconds for the next call."""
        return max(self._deadline - time.monotonic(), 0.001)

    def pause(self, state: RequestState) -> float:
        """Seconds until it is asked again; it fails if that would be too late."""
        self._pause = min(self._pause * 2, 1.0)
        if self.left <= self._pause:
            message = f"request {state.request_id} is still {state.status} after {self._timeout} s"
            raise HeadgateError("TIMEOUT", message, request_id=state.request_id, retryable=True)
        return self._pause


def item_of(value: Any) -> Optional[Item]:
    """An item as Headgate writes it; None if it is none."""
    if not isinstance(value, dict):
        return None
    key, fields, updated_at, seq = (value.get(name) for name in ("key", "fields", "updated_at", "seq"))
    if not isinstance(key, str) or not isinstance(fields, dict) or not isinstance(seq, int):
        return None
    return Item(key, fields, str(updated_at), seq)


def quoted(text: str) -> str:
    """As part of a path or a query."""
    return urllib.parse.quote(text, safe="")
