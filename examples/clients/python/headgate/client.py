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
from .queue import body_of
from .transport import Cancel
from .verdict import Answer, Receipt, Verdict, judge, lost, mismatch, receipt_of
from .wire import Patience, RequestState, Submission, ingest_path, quoted, submission

#: Headgate takes no longer bodies, unless it is configured to.
BODY_BYTES_MAX = 1_048_576
#: An object: a mapping, or an instance of a dataclass.
Item = Any


class Client(Caller):
    """Sends items to one stream of a Headgate.

    ``url`` and ``key`` are taken from the environment (``HEADGATE_URL``, ``HEADGATE_KEY``) where they are missing.
    The url is ``http://host:port``, ``https://host`` or ``unix:/run/headgate.sock``. All times are in seconds.
    Safe to share between threads. Use it with ``with``, or call :meth:`close`: it closes its batchers
    and connections.
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
    ) -> None:
        super().__init__(url, key, timeout, attempt_timeout, backoff, backoff_max, user_agent, ssl_context)
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
        """Sends one object, or several in one request. Returns when Headgate has stored them on disk.

        ``item_key`` names the field that identifies each item. ``stream`` is only a check: a key for another stream
        is rejected. Without an ``idempotency_key``, all attempts of this call use a random one.
        """
        if is_object(items):
            body, sent = encode(items), None
        elif isinstance(items, (str, bytes)):
            raise invalid("the items must be one object or several, not text")
        else:
            parts = [_encoded(item, index) for index, item in enumerate(items)]
            body, sent = body_of(parts), len(parts)
        if len(body) > BODY_BYTES_MAX:
            raise HeadgateError("TOO_LARGE", f"the body has {len(body)} bytes, and the limit is {BODY_BYTES_MAX}; send fewer items per request")
        headers = submission(item_key, idempotency_key or str(uuid.uuid4()))
        path = ingest_path(stream)
        receipt = self._receipt(self._call("POST", path, headers, body, timeout, cancel))
        if receipt.replayed and sent is not None and receipt.items_received != sent:
            raise mismatch(receipt, sent)
        return receipt

    def _receipt(self, answer: Answer) -> Receipt:
        receipt = receipt_of(answer) if answer.status == 202 else None
        if receipt is None:
            raise answer.error(self._clock.wall())
        return receipt

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
        on_state: Optional[Callable[[str, Optional[str]], object]] = None,
        spool: Union[str, "os.PathLike[str]", None] = None,
        spool_bytes: int = 1 << 30,
    ) -> Batcher:
        """Takes items one at a time, and sends them in batches in the background.

        **Items are in memory: a crash loses them, unless there is a spool.** See :class:`Batcher`.

        ``item_key`` or ``connector_has_item_key=True`` is required: items without a key are identified by
        their position in the batch, and the second batch would overwrite the first. ``when_full``: ``"wait"``,
        ``"fail"`` or ``"drop_oldest"`` (without a spool).

        ``on_state`` receives each new state of the connection, ``"ok"``, ``"retrying"`` or ``"blocked"``, and
        the code of the error. The code ``SPOOL`` is about the disk of the spool.
        """
        if (item_key is None) is not connector_has_item_key:
            raise ValueError("item_key is missing; set it, or connector_has_item_key=True if the connector has one")
        if latest_only and item_key is None:
            raise ValueError("latest_only requires item_key; set it")
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
            on_state=on_state,
            spool=spool,
            spool_bytes=spool_bytes,
        )
        self._batchers.add(batcher)
        return batcher

    def request(
        self, request_id: str, *, timeout: Optional[float] = None, cancel: Optional[Cancel] = None
    ) -> RequestState:
        """Returns the status of a request of this key's connector."""
        answer = self._call("GET", "/api/requests/" + quoted(request_id), {}, None, timeout, cancel)
        data = (answer.own() or {}).get("data")
        if answer.status != 200 or not isinstance(data, dict) or not isinstance(data.get("status"), str):
            raise answer.error(self._clock.wall())
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
        """Waits for the final status of a request. The status ``failed`` is a result, not an error."""
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
        """Removes an item, if the key's connector can remove items. Returns when the removal is on disk."""
        headers = submission(None, idempotency_key or str(uuid.uuid4()))
        path = f"/api/streams/{quoted(stream)}/items/{quoted(key)}"
        return self._receipt(self._call("DELETE", path, headers, None, timeout, cancel))

    def close(self) -> None:
        """Flushes and closes its batchers, and closes the open connections."""
        for batcher in list(self._batchers):
            batcher.close()
        self._transport.close()

    def set_key(self, key: str) -> None:
        """Replaces the key for all later requests; blocked batchers retry with it immediately."""
        super().set_key(key)
        for batcher in list(self._batchers):
            batcher._try_now()

    def _forget(self, batcher: Batcher) -> None:
        self._batchers.discard(batcher)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def attempt(self, submission: Submission, leaving: Callable[[], object], cancel: Cancel) -> Verdict:
        """One attempt at a batch; ``leaving`` is called before the first byte of it leaves."""
        within = self._within(submission.body)
        try:
            answer = self._transport.call("POST", submission.path, submission.headers(), submission.body, within,
                                          cancel, leaving=leaving)
        except HeadgateError as error:
            return lost(error)
        return judge(answer, submission.count, self._clock.wall())


def _encoded(item: Item, index: int) -> bytes:
    if not is_object(item):
        raise invalid(f"item {index} must be an object, not of the type {type(item).__name__}")
    try:
        return encode(item)
    except HeadgateError as error:
        raise invalid(f"item {index}: {error.message}") from None
