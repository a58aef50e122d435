"""The one error of the library, and the codes that it finds itself."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


class HeadgateError(Exception):
    """Every error of Headgate and of this library.

    ``code`` is a constant: one of Headgate's (``INVALID_PAYLOAD``, ``UNAUTHORIZED``, …), or one of the
    library's own: ``CONNECTION``, ``TIMEOUT``, ``UNEXPECTED_ANSWER``, ``TOO_LARGE``, ``FULL``, ``DROPPED``,
    ``CLOSED``, ``CANCELED``, ``SPOOL``, ``SPOOL_IN_USE``, ``EXPIRED``, ``MISMATCH``. ``status`` is the HTTP status, if
    there was a response; ``details`` lists places in the rejected body; ``retryable`` says whether the same request may
    succeed later.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: Optional[int] = None,
        request_id: Optional[str] = None,
        details: Optional[List[Dict[str, Any]]] = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.status = status
        self.request_id = request_id
        self.details: List[Dict[str, Any]] = details or []
        self.retryable = retryable
        #: Seconds that the server wants to be left alone.
        self.retry_after: Optional[float] = None
        #: Whether the request began to leave, and no answer came.
        self.unknown = False

    def __str__(self) -> str:
        status = "" if self.status is None else f" ({self.status})"
        request = "" if self.request_id is None else f" [request {self.request_id}]"
        return f"{self.code}{status}: {self.message}{request}"

    def __repr__(self) -> str:
        return f"HeadgateError({str(self)!r})"


def invalid(message: str) -> HeadgateError:
    """An item that cannot be sent as it is."""
    return HeadgateError("INVALID_PAYLOAD", message)


def closed() -> HeadgateError:
    """For what a closed batcher takes no more."""
    return HeadgateError("CLOSED", "the batcher is closed")
