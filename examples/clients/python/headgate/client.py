"""The client: one stream's sender, with retries that never double anything."""

from __future__ import annotations

import os
import ssl
import time
import uuid
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Union

from .batcher import Batcher
from .caller import Caller
from .encoding import encode, is_object
from .errors import HeadgateError, invalid
from .transport import Cancel
from .wire import Patience, Receipt, RequestState, data_of, quoted, receipt, submission

#: Headgate takes no longer bodies, unless it is configured to.
BODY_BYTES_MAX = 1_048_576
#: An object: a mapping, or an instance of a dataclass.
Item = Any


def lived() -> float:
    """Seconds that go on while the machine sleeps, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Client(Caller):
    """Sends items to one stream of a Headgate.

    ``url`` and ``key`` are taken from the environment (``HEADGATE_URL``, ``HEADGATE_KEY``) where they are missing.
    The url is ``http://host:port``, ``https://host`` or ``unix:/run/headgate.sock``. All times are in seconds.
    Safe to share between threads. Use it with ``with``, or call :meth:`close`: it closes batchers that were made
    of it, and connections.
    """

    _KEY_VARIABLE = "HEADGATE_KEY"

    def __init__(
        self,
        url: Optional[str] = None,
        key: Optional[str] = None,
        *,
        timeout: float = 30.0,
        attempt_timeout: float = 10.0,
        backoff: float = 0.25,
        backoff_max: float = 30.0,
        user_agent: Optional[str] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        clock: Callable[[], float] = lived,
    ) -> None:
        super().__init__(url, key, timeout, attempt_timeout, backoff, backoff_max, user_agent, ssl_context)
        self._clock = clock
        self._batchers: Set[Batcher] = set()

    def send(
        self,
        items: Union[Item, Iterable[Item]],
        *,
        item_key: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        stream: Optional[str] = None,
        timeout: Optional[float] = None,
        cancel: Optional[Cancel] = None,
    ) -> Receipt:
        """Sends one object, or several in one request. It returns when they are on disk.

        ``item_key`` names the field that identifies each item. ``stream`` is a check only: another stream of the
        key is refused. Without an ``idempotency_key`` a random one serves for all attempts of this call.
        """
        if is_object(items):
            body = encode(items)
        elif isinstance(items, (str, bytes)):
            raise invalid("the items are one object or several, not text")
        else:
            body = b"[" + b",".join(_encoded(item, index) for index, item in enumerate(items)) + b"]"
        if len(body) > BODY_BYTES_MAX:
            raise HeadgateError("TOO_LARGE", f"the body has {len(body)} bytes, of {BODY_BYTES_MAX} that may be: split it")
        headers = submission(item_key, idempotency_key or str(uuid.uuid4()))
        path = "/api/ingest" if stream is None else f"/api/ingest?stream={quoted(stream)}"
        return receipt(self._call("POST", path, headers, body, timeout, cancel))

    def batcher(
        self,
        *,
        item_key: Optional[str] = None,
        connector_has_item_key: bool = False,
        max_items: int = 1000,
        max_bytes: int = 1_000_000,
        linger: float = 0.1,
        queue_bytes: int = 16 << 20,
        when_full: str = "wait",
        latest_only: bool = False,
        on_accepted: Optional[Callable[[Receipt, List[Item]], object]] = None,
        on_rejected: Optional[Callable[[List[Item], HeadgateError], object]] = None,
        on_retry: Optional[Callable[[HeadgateError, float], object]] = None,
        spool: Union[str, "os.PathLike[str]", None] = None,
    ) -> Batcher:
        """Takes items one at a time, and sends them in batches in the background.

        **What it holds is in memory: a crash loses it, unless there is a spool.** See :class:`Batcher`.

        ``item_key`` is demanded, or ``connector_has_item_key=True``: items that nothing identifies are known by
        their position in the batch, and the second batch would overwrite the first. ``when_full``: ``"wait"``,
        ``"fail"`` or ``"drop_oldest"``.
        """
        if (item_key is None) is not connector_has_item_key:
            raise ValueError("give item_key, or say connector_has_item_key=True if the connector has one")
        if latest_only and item_key is None:
            raise ValueError("latest_only needs item_key")
        batcher = Batcher(
            self,
            item_key=item_key,
            max_items=max_items,
            max_bytes=max_bytes,
            linger=linger,
            queue_bytes=queue_bytes,
            when_full=when_full,
            latest_only=latest_only,
            on_accepted=on_accepted,
            on_rejected=on_rejected,
            on_retry=on_retry,
            spool=spool,
        )
        self._batchers.add(batcher)
        return batcher

    def request(
        self, request_id: str, *, timeout: Optional[float] = None, cancel: Optional[Cancel] = None
    ) -> RequestState:
        """What became of a request that this key's connector sent."""
        answer = self._call("GET", "/api/requests/" + quoted(request_id), {}, None, timeout, cancel)
        data = data_of(answer)
        if answer.status != 200 or not isinstance(data, dict) or not isinstance(data.get("status"), str):
            raise answer.error()
        return RequestState(
            request_id=str(data.get("request_id", request_id)),
            status=data["status"],
            errors=list(data.get("errors") or ()),
            sinks=list(data.get("sinks") or ()),
            stream=data.get("stream"),
            items_received=data.get("items_received"),
            processed_at=data.get("processed_at"),
        )

    def wait(self, sent: Union[Receipt, str], *, timeout: float = 30.0) -> RequestState:
        """Asks until it is known what became of a request. That it ``failed`` is an answer, not an error."""
        request_id = sent if isinstance(sent, str) else sent.request_id
        patience = Patience(timeout)
        while True:
            state = self.request(request_id, timeout=patience.left)
            if not state.is_open:
                return state
            time.sleep(patience.pause(state))

    def remove(
        self,
        stream: str,
        key: str,
        *,
        idempotency_key: Optional[str] = None,
        timeout: Optional[float] = None,
        cancel: Optional[Cancel] = None,
    ) -> Receipt:
        """Removes an item, if the key's connector may. It returns when the removal is on disk."""
        headers = submission(None, idempotency_key or str(uuid.uuid4()))
        path = f"/api/streams/{quoted(stream)}/items/{quoted(key)}"
        return receipt(self._call("DELETE", path, headers, None, timeout, cancel))

    def close(self) -> None:
        """Closes the batchers that were made of it, which flush, and the connections that are kept."""
        for batcher in list(self._batchers):
            batcher.close()
        self._transport.close()

    def _forget(self, batcher: Batcher) -> None:
        self._batchers.discard(batcher)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def attempt(
        self, headers: Dict[str, Any], body: bytes, cancel: Cancel, timeout: Optional[float] = None
    ) -> Receipt:
        """One attempt at a batch."""
        timeout = self._attempt_timeout if timeout is None else timeout
        return receipt(self._transport.call("POST", "/api/ingest", headers, body, timeout, cancel))


def _encoded(item: Item, index: int) -> bytes:
    if not is_object(item):
        raise invalid(f"item {index} is no object: it has the type {type(item).__name__}")
    try:
        return encode(item)
    except HeadgateError as error:
        raise invalid(f"item {index}: {error.message}") from None
