"""The reader: the items of streams, once or as they change, over Server-Sent Events."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from .caller import Caller
from .errors import HeadgateError
from .events import Parser
from .transport import PAGE_BYTES_MAX, Cancel
from .verdict import Answer, Headers
from .view import View
from .wire import Item, item_of, quoted

#: A message of a stream, as JSON; ``type`` says which.
Message = Dict[str, Any]
#: A connection that lived so long begins anew with the shortest pause.
_LIVED_SECONDS = 5.0
_BYE_SECONDS_MAX = 600.0
_RESUMABLE = re.compile(r"[0-9]+:[1-9][0-9]*")


class Reader(Caller):
    """Reads streams of a Headgate.

    ``url`` and ``key`` are taken from the environment (``HEADGATE_URL``, ``HEADGATE_READ_KEY``) where they are
    missing. All times are in seconds; a connection that is silent for ``silence`` is replaced.
    ``parse_float=decimal.Decimal`` keeps all digits of numbers. Safe to share between threads.
    """

    _KEY_VARIABLE = "HEADGATE_READ_KEY"

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
        super().__init__(url, key, timeout, attempt_timeout, backoff, backoff_max, user_agent, ssl_context)
        self._silence = silence
        self._parse_float = parse_float

    def items(self, stream: str, *, page: Optional[int] = None) -> Iterator[Item]:
        """Returns all items of a stream, ordered by key. Fetches pages of ``page`` items as needed."""
        cursor: Optional[str] = None
        while True:
            found, cursor = self._page(stream, page, cursor, None)
            yield from found
            if cursor is None:
                return

    def item(self, stream: str, key: str) -> Optional[Item]:
        """Returns one item, or None if it does not exist."""
        return self._item(stream, key, None)

    def follow(
        self,
        streams: Optional[Iterable[str]] = None,
        since: Optional[str] = None,
        *,
        cancel: Optional[Cancel] = None,
    ) -> Iterator[Message]:
        """Returns the messages of these streams, or of all streams of the key, without end.

        Reconnects after lost connections, and resumes with the last ``id``; ``since`` is the ``id`` of a message to
        resume from. ``heartbeat`` and ``bye`` are not returned. Ends when ``cancel`` is used, or with an error if the
        key or a stream is rejected.
        """
        for message in self._messages(streams, since, cancel or Cancel()):
            if message is not None and message["type"] != "heartbeat":
                yield message

    def view(
        self, stream: str, *, on_change: Optional[Callable[[List[Item], List[str]], object]] = None
    ) -> View:
        """Returns the items of a stream as a mapping that stays current until it is closed."""
        cancel = Cancel()
        return View(stream, self._messages([stream], None, cancel), cancel, on_change)

    def close(self) -> None:
        """Closes the open connections. Views and followers have their own."""
        self._transport.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _page(
        self, stream: str, page: Optional[int], cursor: Optional[str], cancel: Optional[Cancel]
    ) -> Tuple[List[Item], Optional[str]]:
        """A page of items, and the cursor of the next one."""
        asked = ([] if page is None else [f"limit={page}"]) + ([] if cursor is None else [f"cursor={quoted(cursor)}"])
        answer = self._get(f"/api/streams/{quoted(stream)}/items" + ("?" + "&".join(asked) if asked else ""), cancel)
        value = self._data(answer)
        found, following = value["data"], value.get("next")
        if not isinstance(found, list):
            raise self._wrong(answer)
        return [self._one(answer, each) for each in found], following if isinstance(following, str) else None

    def _item(self, stream: str, key: str, cancel: Optional[Cancel]) -> Optional[Item]:
        try:
            answer = self._get(f"/api/streams/{quoted(stream)}/items/{quoted(key)}", cancel)
        except HeadgateError as error:
            if error.code == "ITEM_NOT_FOUND":
                return None
            raise
        return self._one(answer, self._data(answer)["data"])

    def _one(self, answer: Answer, value: Any) -> Item:
        item = item_of(value)
        if item is None:
            raise self._wrong(answer)
        return item

    def _get(self, path: str, cancel: Optional[Cancel]) -> Answer:
        return self._call("GET", path, {}, None, None, cancel, PAGE_BYTES_MAX)

    def _data(self, answer: Answer) -> Dict[str, Any]:
        value = answer.own(self._parse_float)
        if value is None:
            raise self._wrong(answer)
        return value

    def _wrong(self, answer: Answer) -> HeadgateError:
        """For an answer that has something else than what was asked for."""
        return answer.error(self._clock.wall())

    def _messages(
        self, streams: Optional[Iterable[str]], since: Optional[str], cancel: Cancel
    ) -> Iterator[Optional[Message]]:
        """All messages but ``bye``; None where a connection ended."""
        if isinstance(streams, str):
            raise TypeError("streams must be a list of names, not one name")
        names = None if streams is None else ",".join(quoted(name) for name in streams)
        path = "/api/live" + ("" if names is None else "?streams=" + names)
        failures = 0
        while not cancel.canceled:
            connection = _Connected(self, path, since, cancel)
            try:
                yield from connection.messages()
            except HeadgateError as error:
                if cancel.canceled:
                    return
                if not error.retryable:
                    raise
                pause = self.pause(error, failures + 1)
            else:
                pause = connection.bye if connection.bye is not None else 0.0
            since = connection.since
            yield None
            good = connection.bye is not None or connection.lived > _LIVED_SECONDS
            failures = 0 if good else failures + 1
            cancel.sleep(pause)


class _Connected:
    """One connection of a follower."""

    def __init__(self, reader: Reader, path: str, since: Optional[str], cancel: Cancel) -> None:
        self._reader, self._path, self._cancel = reader, path, cancel
        #: What the next one resumes from.
        self.since = since if since is not None and _RESUMABLE.fullmatch(since) else None
        #: For how many seconds messages came.
        self.lived = 0.0
        #: The pause that a ``bye`` wants.
        self.bye: Optional[float] = None

    def messages(self) -> Iterator[Message]:
        """Until it ends: with ``bye``, or with an error."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
        if self.since is not None:
            headers["Last-Event-ID"] = self.since
        reader = self._reader
        timeout = min(reader._attempt_timeout, reader._silence)
        response, connection = reader._transport.stream(self._path, headers, timeout, self._cancel)
        began = time.monotonic()
        try:
            if response.status != 200 or "text/event-stream" not in response.headers.get("content-type", ""):
                answer = Answer(response.status, Headers(response.getheaders()), response.read(1 << 20), reader._transport.shown)
                raise answer.error(reader._clock.wall())
            parser = Parser()
            while self.bye is None:
                connection.deadline = time.monotonic() + reader._silence
                data = response.read1(1 << 16)
                if not data:
                    raise http.client.IncompleteRead(b"")
                for event in parser.feed(data):
                    message = self._message(event.data)
                    self.lived = time.monotonic() - began
                    if message["type"] == "bye":
                        self.bye = _bye_seconds(message.get("retry_ms"))
                        return
                    if event.id is not None:
                        # Position 0 stands for snapshots that are not complete yet.
                        self.since = event.id if _RESUMABLE.fullmatch(event.id) else None
                    yield message
        except socket.timeout:
            raise HeadgateError("TIMEOUT", f"nothing was received for {reader._silence} s", retryable=True) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
            raise HeadgateError("CONNECTION", f"the connection was lost: {why}", retryable=True) from None
        finally:
            response.close()
            connection.close()

    def _message(self, text: str) -> Message:
        message = json.loads(text, parse_float=self._reader._parse_float)
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise ValueError("a message is not from Headgate")
        return message


def _bye_seconds(milliseconds: Any) -> float:
    known = isinstance(milliseconds, (int, float)) and milliseconds > 0
    return min(milliseconds / 1000, _BYE_SECONDS_MAX) if known else 0.0
