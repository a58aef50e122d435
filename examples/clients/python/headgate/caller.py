"""What clients and readers share: requests that are tried again while that makes sense."""

from __future__ import annotations

import os
import random
import ssl
import time
from typing import Any, Callable, Dict, Optional

from .errors import HeadgateError
from .transport import ANSWER_BYTES_MAX, Cancel, Transport
from .verdict import Answer


#: The slowest line on which a body arrives before its attempt is given up.
BYTES_PER_SECOND = 16384


class Clock:
    """The time, in seconds."""

    def mono(self) -> float:
        """Goes on while the machine sleeps, where the system has such a clock, and is never set."""
        clock = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if clock is None else time.clock_gettime(clock)

    def wall(self) -> float:
        """Since 1970."""
        return time.time()


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
            raise ValueError(f"the key is missing; pass one, or set {self._KEY_VARIABLE}")
        self._transport = Transport(url, key, user_agent, ssl_context)
        self._timeout = timeout
        self._attempt_timeout = attempt_timeout
        self._backoff = backoff
        self._backoff_max = max(backoff, backoff_max)
        self._clock = Clock()
        self._random: Callable[[], float] = random.random

    def __repr__(self) -> str:
        return f"headgate.{type(self).__name__}({self._transport.shown!r})"

    def set_key(self, key: str) -> None:
        """Requests have this key from now on."""
        self._transport.set_key(key)

    def backoff(self, failures: int) -> float:
        """What so many failures in a row cost: half to all of a pause that doubles."""
        longest = min(self._backoff_max, self._backoff * 2.0 ** min(failures - 1, 60))
        return longest * (0.5 + 0.5 * self._random())

    def pause(self, error: HeadgateError, failures: int) -> float:
        """How long to wait before the next attempt."""
        return max(error.retry_after or 0.0, self.backoff(failures))

    def _within(self, body: Optional[bytes]) -> float:
        """How long an attempt may take: a long body takes longer where the line is slow."""
        return self._attempt_timeout + len(body or b"") / BYTES_PER_SECOND

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
        failures = 0
        while True:
            left = max(deadline - time.monotonic(), 0.001)
            if cancel is not None and cancel.canceled:
                raise canceled()
            try:
                within = min(left, self._within(body))
                answer = self._transport.call(method, path, headers, body, within, cancel, bytes_max)
                if answer.status in (200, 202) and answer.succeeds:
                    return answer
                error = answer.error(self._clock.wall())
            except HeadgateError as lost:
                error = lost
            if cancel is not None and cancel.canceled:
                raise canceled()
            failures += 1
            pause = self.pause(error, failures)
            if not error.retryable or time.monotonic() + pause >= deadline:
                raise error
            if cancel is None:
                time.sleep(pause)
            else:
                cancel.sleep(pause)


def canceled() -> HeadgateError:
    """For a call that was ended by its :class:`Cancel`."""
    return HeadgateError("CANCELED", "the call was canceled; Headgate may have accepted the request")
