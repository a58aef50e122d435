"""What clients and readers share: requests that are tried again while that makes sense."""

from __future__ import annotations

import os
import random
import ssl
import time
from typing import Any, Dict, Optional

from .errors import HeadgateError
from .transport import ANSWER_BYTES_MAX, Answer, Cancel, Transport


class Caller:
    """Calls a Headgate, with pauses between attempts. All times are in seconds."""

    #: Where the key stands in the environment.
    _KEY_VARIABLE: str

    def __init__(
        self,
        url: Optional[str],
        key: Optional[str],
        timeout: float,
        attempt_timeout: float,
        backoff: float,
        backoff_max: float,
        user_agent: Optional[str],
        ssl_context: Optional[ssl.SSLContext],
    ) -> None:
        url = url or os.environ.get("HEADGATE_URL") or "http://127.0.0.1:8080"
        key = key or os.environ.get(self._KEY_VARIABLE)
        if not key:
            raise ValueError(f"no key: give one, or set {self._KEY_VARIABLE}")
        self._transport = Transport(url, key, user_agent, ssl_context)
        self._timeout = timeout
        self._attempt_timeout = attempt_timeout
        self._backoff = backoff
        self._backoff_max = max(backoff, backoff_max)

    def __repr__(self) -> str:
        return f"headgate.{type(self).__name__}({self._transport.shown!r})"

    def pause(self, error: HeadgateError, attempt: int) -> float:
        """How long to wait before the next attempt; the first one is 0."""
        if error.retry_after is not None:
            return error.retry_after
        return random.uniform(0, min(self._backoff_max, self._backoff * 2.0 ** min(attempt, 60)))

    def _call(
        self,
        method: str,
        path: str,
        headers: Dict[str, Any],
        body: Optional[bytes],
        timeout: Optional[float],
        cancel: Optional[Cancel] = None,
        bytes_max: int = ANSWER_BYTES_MAX,
    ) -> Answer:
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        attempt = 0
        while True:
            left = max(deadline - time.monotonic(), 0.001)
            if cancel is not None and cancel.canceled:
                raise canceled()
            try:
                within = min(left, self._attempt_timeout)
                answer = self._transport.call(method, path, headers, body, within, cancel, bytes_max)
                if answer.status in (200, 202):
                    return answer
                error = answer.error()
            except HeadgateError as lost:
                error = lost
            if cancel is not None and cancel.canceled:
                raise canceled()
            pause = self.pause(error, attempt)
            if not error.retryable or time.monotonic() + pause >= deadline:
                raise error
            if cancel is None:
                time.sleep(pause)
            else:
                cancel.sleep(pause)
            attempt += 1


def canceled() -> HeadgateError:
    """For a call that was ended by its :class:`Cancel`."""
    return HeadgateError("CANCELED", "the call was canceled; whether Headgate has taken it is not known")
