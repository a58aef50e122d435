"""The reader for asyncio: the same core. A page waits in a thread of the loop's, and whoever follows has one of his own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from typing import Any, AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, List, Optional, Tuple, TypeVar

from .aio import canceling, in_loop
from .reader import Message, Reader
from .transport import Cancel
from .view import Shown
from .wire import Item

_T = TypeVar("_T")


class AsyncReader:
    """:class:`Reader` for asyncio; its options, messages and errors are the same.

    Use it with ``async with``, or call :meth:`close`. A call whose task is canceled ends.
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
        silence: float = 40.0,
        user_agent: Optional[str] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        parse_float: Callable[[str], Any] = float,
    ) -> None:
        self._reader = Reader(
            url, key, timeout=timeout, attempt_timeout=attempt_timeout, backoff=backoff, backoff_max=backoff_max,
            silence=silence, user_agent=user_agent, ssl_context=ssl_context, parse_float=parse_float,
        )

    def __repr__(self) -> str:
        return f"<headgate.AsyncReader of {self._reader!r}>"

    async def items(self, stream: str, *, page: Optional[int] = None) -> AsyncIterator[Item]:
        """Returns all items of a stream, ordered by key. Fetches pages of ``page`` items as needed."""
        cursor: Optional[str] = None
        while True:
            found, cursor = await self._page(stream, page, cursor)
            for item in found:
                yield item
            if cursor is None:
                return

    async def item(self, stream: str, key: str) -> Optional[Item]:
        """Returns one item, or None if it does not exist."""
        return await canceling(lambda cancel: self._reader._item(stream, key, cancel))

    def follow(
        self, streams: Optional[Iterable[str]] = None, since: Optional[str] = None
    ) -> AsyncGenerator[Message, None]:
        """Returns the messages of these streams, or of all streams of the key, without end, like :meth:`Reader.follow`.

        It ends with the task that waits for it, when nobody iterates it any more (soon; at once with its ``aclose``), or
        with an error if the key or a stream is rejected.
        """
        cancel = Cancel()
        return _from_a_thread(self._reader.follow(streams, since, cancel=cancel), cancel)

    def view(
        self, stream: str, *, on_change: Optional[Callable[[List[Item], List[str]], object]] = None
    ) -> AsyncView:
        """Returns the items of a stream as a mapping that stays current until it is closed. Made in a running loop, which
        calls ``on_change`` with the items that are new and the keys that are gone."""
        cancel = Cancel()
        told = in_loop(asyncio.get_running_loop(), on_change)
        return AsyncView(stream, self._reader._messages([stream], None, cancel), cancel, told)

    async def close(self) -> None:
        """Closes the open connections. Views and followers have their own."""
        self._reader.close()

    async def __aenter__(self) -> AsyncReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _page(self, stream: str, page: Optional[int], cursor: Optional[str]) -> Tuple[List[Item], Optional[str]]:
        return await canceling(lambda cancel: self._reader._page(stream, page, cursor, cancel))


class AsyncView(Shown):
    """Made by :meth:`AsyncReader.view`: items by key, read like a dict. Close it, or use ``async with``.

    After a lost connection, until a new snapshot is complete, it keeps its items and is ``stale``.
    """

    async def wait(self, timeout: float = 30.0) -> bool:
        """Waits until the view is complete; returns whether it is. Raises the error that ended it."""
        return await canceling(lambda cancel: self._wait(timeout, cancel), self._wake)

    async def close(self) -> None:
        """Ends the view, which keeps its items."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> AsyncView:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _from_a_thread(values: Iterator[_T], cancel: Cancel) -> AsyncGenerator[_T, None]:
    """What an iterator gives that waits for each value. Its thread keeps no program alive, and is one value ahead."""
    loop = asyncio.get_running_loop()
    given: "asyncio.Queue[Tuple[List[_T], Optional[Exception]]]" = asyncio.Queue()
    room = threading.Semaphore(1)

    def give(value: List[_T], error: Optional[Exception]) -> None:
        try:
            loop.call_soon_threadsafe(given.put_nowait, (value, error))
        except RuntimeError:
            cancel.cancel()  # the loop is closed

    def run() -> None:
        try:
            for value in values:
                room.acquire()
                if cancel.canceled:
                    break
                give([value], None)
            give([], None)
        except Exception as error:
            give([], error)

    threading.Thread(target=run, name="headgate-follow", daemon=True).start()
    try:
        while True:
            value, error = await given.get()
            if error is not None:
                raise error
            if not value:
                return
            room.release()
            yield value[0]
    finally:
        cancel.cancel()
        room.release()
