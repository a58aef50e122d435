"""The client for asyncio: the same core, whose calls wait in threads; a task that is canceled ends its call."""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
from typing import Any, Callable, Iterable, List, Optional, TypeVar, Union

from .batcher import Batcher
from .client import Client, Item
from .errors import HeadgateError
from .transport import Cancel
from .verdict import Receipt
from .wire import FlushResult, Patience, RequestState, Stats

_T = TypeVar("_T")


async def canceling(call: Callable[[Cancel], _T], also: Callable[[], object] = lambda: None) -> _T:
    """Runs a call in a thread; ends it when the task is canceled."""
    cancel = Cancel()
    try:
        return await asyncio.to_thread(call, cancel)
    except asyncio.CancelledError:
        cancel.cancel()
        also()
        raise


class AsyncClient:
    """:class:`Client` for asyncio; its options and errors are the same.

    Use it with ``async with``, or call :meth:`close`. Canceling the task ends its call; Headgate may still
    have accepted the request in flight.
    """

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
        self._client = Client(
            url, key, timeout=timeout, attempt_timeout=attempt_timeout, backoff=backoff, backoff_max=backoff_max,
            user_agent=user_agent, ssl_context=ssl_context,
        )

    def __repr__(self) -> str:
        return f"<headgate.AsyncClient of {self._client!r}>"

    async def send(
        self,
        items: Union[Item, Iterable[Item]],
        *,
        item_key: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        stream: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> Receipt:
        """Sends one object, or several in one request. Returns when Headgate has stored them on disk."""
        return await canceling(lambda cancel: self._client.send(
            items, item_key=item_key, idempotency_key=idempotency_key, stream=stream, timeout=timeout, cancel=cancel))

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
    ) -> AsyncBatcher:
        """Takes items one at a time, as :meth:`Client.batcher` does. Made in a running loop, which calls the callbacks."""
        loop = asyncio.get_running_loop()
        return AsyncBatcher(self._client.batcher(
            item_key=item_key, connector_has_item_key=connector_has_item_key, max_items=max_items, max_bytes=max_bytes,
            linger=linger, queue_bytes=queue_bytes, when_full=when_full, latest_only=latest_only,
            on_accepted=in_loop(loop, on_accepted), on_rejected=in_loop(loop, on_rejected),
            on_state=in_loop(loop, on_state), spool=spool, spool_bytes=spool_bytes,
        ))

    def set_key(self, key: str) -> None:
        """Replaces the key for all later requests; blocked batchers retry with it immediately."""
        self._client.set_key(key)

    async def request(self, request_id: str, *, timeout: Optional[float] = None) -> RequestState:
        """Returns the status of a request of this key's connector."""
        return await canceling(lambda cancel: self._client.request(request_id, timeout=timeout, cancel=cancel))

    async def wait(self, sent: Union[Receipt, str], *, timeout: float = 30.0) -> RequestState:
        """Waits for the final status of a request. The status ``failed`` is a result, not an error."""
        request_id = sent if isinstance(sent, str) else sent.request_id
        patience = Patience(timeout)
        while True:
            state = await self.request(request_id, timeout=patience.left)
            if not state.is_open:
                return state
            await asyncio.sleep(patience.pause(state))

    async def remove(
        self, stream: str, key: str, *, idempotency_key: Optional[str] = None, timeout: Optional[float] = None
    ) -> Receipt:
        """Removes an item, if the key's connector can remove items. Returns when the removal is on disk."""
        return await canceling(lambda cancel: self._client.remove(
            stream, key, idempotency_key=idempotency_key, timeout=timeout, cancel=cancel))

    async def close(self) -> None:
        """Flushes and closes its batchers, and closes the open connections."""
        await asyncio.to_thread(self._client.close)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncBatcher:
    """Made by :meth:`AsyncClient.batcher`.

    **Items are in memory: a crash loses them, unless there is a spool.** What waits when the program ends
    normally is flushed for at most 5 seconds.
    """

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher

    def __repr__(self) -> str:
        return f"<headgate.AsyncBatcher of {self._batcher!r}>"

    async def add(self, item: Item) -> None:
        """Adds an item to the queue, immediately if there is space. Fails if the item cannot be sent."""
        if not self._batcher._add(item, None, False):
            await canceling(lambda cancel: self._batcher._add(item, cancel, True), self._batcher._wake)

    async def flush(self, timeout: float = 30.0) -> FlushResult:
        """Waits until all items added before are accepted or rejected, or the time is over; returns which."""
        return await canceling(lambda cancel: self._batcher._flush(timeout, cancel), self._batcher._wake)

    async def close(self, timeout: float = 30.0) -> FlushResult:
        """Flushes and stops. Unsent batches stay in the spool; items outside it are rejected with ``CLOSED``."""
        return await asyncio.to_thread(self._batcher.close, timeout)

    @property
    def stats(self) -> Stats:
        """Returns counters, and how long the oldest item has waited."""
        return self._batcher.stats

    async def __aenter__(self) -> AsyncBatcher:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def in_loop(loop: asyncio.AbstractEventLoop, callback: Optional[Callable[..., object]]) -> Optional[Callable[..., object]]:
    """Calls in the loop what is called in a thread: in order, and before a flush that waits for it goes on."""
    if callback is None:
        return None
    there = callback

    def call(*told: Any) -> None:
        if loop.is_closed():
            there(*told)
        else:
            loop.call_soon_threadsafe(functools.partial(there, *told))

    return call
