"""What an answer means for the items that were sent: the one place that decides it.

Only Headgate's own word takes anything from a queue. Everything else, whoever said it, is a state of the connection:
the batch waits, and is sent again.
"""

from __future__ import annotations

import email.utils
import json
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from .errors import HeadgateError

#: Headgate's own statuses below 500 that may pass by themselves.
_PASSING = frozenset((408, 425, 429))
_RETRY_AFTER_SECONDS_MAX = 300.0
_DATE = re.compile(r"[A-Z][a-z]{2,8},? [\dA-Za-z: -]+ GMT")
_BLOCKED_SECONDS = 5.0
_REFUSED_SECONDS = 0.1


@dataclass(frozen=True)
class Receipt:
    """What Headgate has taken: it is on disk."""

    stream: str
    items_received: int
    request_id: str
    #: It had been taken before, and was not processed again.
    replayed: bool


@dataclass(frozen=True)
class Verdict:
    """How an attempt has ended."""

    #: ``accepted``, ``refused``, ``mismatch``, ``blocked`` or ``retrying``.
    kind: str
    error: Optional[HeadgateError] = None
    receipt: Optional[Receipt] = None
    #: Whether Headgate may have taken it, although this is not known.
    unknown: bool = False
    #: The items that a refusal names, in order.
    items: Tuple[int, ...] = ()
    #: Whether a proxy on the way finds the body too large.
    shrink: bool = False


class Headers:
    """The headers of an answer, in order, as often as they came."""

    def __init__(self, pairs: List[Tuple[str, str]]) -> None:
        self._pairs = [(name.lower(), value.strip(" \t")) for name, value in pairs]

    def all(self, name: str) -> List[str]:
        """Every value."""
        return [value for each, value in self._pairs if each == name]

    def only(self, name: str) -> Optional[str]:
        """The value; None, if it is not there, or there more than once."""
        found = self.all(name)
        return found[0] if len(found) == 1 else None


class Answer:
    """An answer, read to its end."""

    def __init__(self, status: int, headers: Headers, body: Optional[bytes], url: str) -> None:
        self.status = status
        self.headers = headers
        #: None: it was longer than what is read.
        self.body = body
        self._url = url
        self._own: Optional[Tuple[Optional[Dict[str, Any]]]] = None

    def json(self, parse_float: Callable[[str], Any] = float) -> Any:
        """The body; None if it is no JSON."""
        try:
            # As text: of bytes, Python would take other encodings, too, and a byte order mark.
            return None if self.body is None else json.loads(self.body.decode("utf-8"), parse_float=parse_float)
        except (ValueError, RecursionError):
            return None

    def own(self, parse_float: Callable[[str], Any] = float) -> Optional[Dict[str, Any]]:
        """Headgate's envelope; None, if this is not its answer."""
        if parse_float is not float:
            return self._read_own(parse_float)
        if self._own is None:
            self._own = (self._read_own(float),)
        return self._own[0]

    def _read_own(self, parse_float: Callable[[str], Any]) -> Optional[Dict[str, Any]]:
        kind = self.headers.only("content-type")
        if kind is None or kind.split(";")[0].strip().lower() != "application/json":
            return None
        value = self.json(parse_float)
        if not isinstance(value, dict):
            return None
        told = value.get("error")
        if value.get("success") is False and isinstance(told, dict):
            return value if _is_text(told.get("code")) and _is_text(told.get("request_id")) else None
        return value if value.get("success") is True and "data" in value else None

    @property
    def succeeds(self) -> bool:
        """Whether Headgate says that it has done what was asked."""
        own = self.own()
        return own is not None and own["success"] is True

    def error(self, wall: float) -> HeadgateError:
        """What this answer says, which is not the one that was hoped for."""
        own = self.own()
        told = None if own is None else own.get("error")
        if own is not None and own["success"] is False and isinstance(told, dict):
            details = told.get("details")
            error = HeadgateError(
                told["code"],
                str(told.get("message", "")),
                status=self.status,
                request_id=told["request_id"],
                details=[each for each in details if isinstance(each, dict)] if isinstance(details, list) else None,
                retryable=self.status in _PASSING or not 400 <= self.status < 500,
            )
        else:
            message = f"status {self.status} from {self._url} is not from Headgate, but from a proxy or another server; check the URL"
            error = HeadgateError("UNEXPECTED_ANSWER", message, status=self.status, retryable=True)
        error.retry_after = _retry_after(self.headers, wall)
        return error


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _retry_after(headers: Headers, wall: float) -> Optional[float]:
    value = headers.only("retry-after")
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), _RETRY_AFTER_SECONDS_MAX)
    at, now = _date(value), _date(headers.only("date") or "")
    if at is None:
        return None
    return min(max(at - (wall if now is None else now), 0.0), _RETRY_AFTER_SECONDS_MAX)


def _date(value: str) -> Optional[float]:
    if not _DATE.fullmatch(value):
        return None
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def receipt_of(answer: Answer) -> Optional[Receipt]:
    """What Headgate says that it has taken, whatever the status."""
    own = answer.own()
    data = None if own is None else own.get("data")
    if own is None or own["success"] is not True or not isinstance(data, dict):
        return None
    stream, count, request_id = data.get("stream"), data.get("items_received"), data.get("request_id")
    if not _is_text(stream) or not _is_text(request_id) or type(count) is not int:
        return None
    replayed = "true" in [value.lower() for value in answer.headers.all("idempotent-replayed")]
    return Receipt(str(stream), count, str(request_id), replayed)


def judge(answer: Answer, sent: Optional[int], wall: float) -> Verdict:
    """How an attempt has ended that was answered; ``sent`` items went out, None: a number that nobody checks."""
    status, receipt = answer.status, receipt_of(answer)
    if receipt is not None and status == 202:
        if sent is None or receipt.items_received == sent:
            return Verdict("accepted", receipt=receipt)
        return Verdict("mismatch", error=mismatch(receipt, sent))
    error = answer.error(wall)
    if receipt is not None:
        return Verdict("retrying", error=error, unknown=200 <= status < 300)
    if error.code == "UNEXPECTED_ANSWER":
        return Verdict("retrying", error=error, unknown=status == 202 or status >= 500, shrink=status == 413)
    if error.retryable:
        return Verdict("retrying", error=error, unknown=status < 300 or (status >= 500 and status != 503))
    if not _refuses_items(error):
        return Verdict("blocked", error=error)
    return Verdict("refused", error=error, items=_named(error, sent or 0))


def lost(error: HeadgateError) -> Verdict:
    """How an attempt has ended that was not answered."""
    return Verdict("retrying", error=error, unknown=error.unknown)


def mismatch(receipt: Receipt, sent: int) -> HeadgateError:
    """For a key under which Headgate has taken something else."""
    message = f"the idempotency key belongs to another request with {receipt.items_received} items, but {sent} were sent; use a new key"
    return HeadgateError("MISMATCH", message, status=202, request_id=receipt.request_id)


def _refuses_items(error: HeadgateError) -> bool:
    if error.status == 413:
        return error.code == "PAYLOAD_TOO_LARGE"
    about_header = any("header" in each for each in error.details)
    return error.status == 400 and error.code == "INVALID_PAYLOAD" and not about_header


def _named(error: HeadgateError, sent: int) -> Tuple[int, ...]:
    items = (each.get("item") for each in error.details)
    return tuple(sorted({item for item in items if type(item) is int and 0 <= item < sent}))


def pause(verdict: Verdict, backoff: float) -> float:
    """Seconds until the next attempt; ``backoff`` is what the failures in a row say."""
    if verdict.kind in ("accepted", "mismatch"):
        return 0.0
    if verdict.kind == "refused":
        return _REFUSED_SECONDS
    told = None if verdict.error is None else verdict.error.retry_after
    return max(backoff, told or 0.0, _BLOCKED_SECONDS if verdict.kind == "blocked" else 0.0)
