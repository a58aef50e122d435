"""One request and its answer over ``http.client``, with kept connections, a deadline and cancellation.

The key goes into ``Authorization`` and nowhere else; redirects are answers like others.
"""

from __future__ import annotations

import email.utils
import functools
import http.client
import io
import json
import os
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, List, Optional, Tuple

from .errors import RETRYABLE_STATUSES, HeadgateError

VERSION = "0.1.0"
#: Of an answer no more is read.
ANSWER_BYTES_MAX = 1 << 20
PAGE_BYTES_MAX = 64 << 20
_RETRY_AFTER_SECONDS_MAX = 300.0
_IDLE_MAX = 8


class Cancel:
    """Ends a call from another thread: what it waits for is interrupted."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._connection: Optional["_Connection"] = None

    def cancel(self) -> None:
        """Ends the call, now or as soon as it begins."""
        with self._lock:
            self._event.set()
            if self._connection is not None:
                self._connection.shut()

    @property
    def canceled(self) -> bool:
        """Whether it was ended."""
        return self._event.is_set()

    def sleep(self, seconds: float) -> None:
        """Waits, or until it is ended."""
        self._event.wait(seconds)

    def watch(self, connection: Optional["_Connection"]) -> None:
        """What is shut when it is ended."""
        with self._lock:
            self._connection = connection
            if connection is not None and self._event.is_set():
                connection.shut()


class Answer:
    """An answer, read to its end."""

    def __init__(self, status: int, headers: http.client.HTTPMessage, body: Optional[bytes]) -> None:
        self.status = status
        self.headers = headers
        #: None: it was longer than what is read.
        self.body = body

    def json(self, parse_float: Callable[[str], Any] = float) -> Any:
        """The body; None if it is no JSON."""
        try:
            return None if self.body is None else json.loads(self.body, parse_float=parse_float)
        except (ValueError, RecursionError):
            return None

    def error(self) -> HeadgateError:
        """What this answer says, which is not the one that was hoped for."""
        value = self.json()
        told = value.get("error") if isinstance(value, dict) else None
        retryable = self.status in RETRYABLE_STATUSES
        if isinstance(told, dict) and isinstance(told.get("code"), str) and self.status >= 400:
            details = told.get("details")
            error = HeadgateError(
                told["code"],
                str(told.get("message", "")),
                status=self.status,
                request_id=_text(told.get("request_id")),
                details=[each for each in details if isinstance(each, dict)] if isinstance(details, list) else None,
                retryable=retryable,
            )
        else:
            message = f"status {self.status}, and not an answer of Headgate's; is the address right?"
            error = HeadgateError("UNEXPECTED_ANSWER", message, status=self.status, retryable=retryable)
        error.retry_after = _retry_after(self.headers.get("retry-after"))
        return error


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _retry_after(value: Optional[str]) -> Optional[float]:
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), _RETRY_AFTER_SECONDS_MAX)
    try:
        seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), _RETRY_AFTER_SECONDS_MAX)


class _Timed(io.RawIOBase):
    """Reads an answer until a moment, however its bytes trickle."""

    def __init__(self, sock: socket.socket, connection: "_Connection", own: Any) -> None:
        super().__init__()
        self._sock = sock
        self._connection = connection
        self._own = own

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._connection.deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self._sock.settimeout(left)
        return self._sock.recv_into(buffer)

    def close(self) -> None:
        self._own.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, connection: "_Connection", **options: Any) -> None:
        super().__init__(sock, *args, **options)
        # The file that it has made keeps the socket open, and is closed with the answer.
        self.fp = io.BufferedReader(_Timed(sock, connection, self.fp))


class _Connection:
    """A connection, which answers one request at a time."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport
        self._http: Optional[http.client.HTTPConnection] = None
        self._sock: Optional[socket.socket] = None
        self._shut = False
        #: Until when answers are read, by the monotonic clock.
        self.deadline = 0.0
        self.used = False

    def open(self, timeout: float) -> None:
        """Connects."""
        transport = self._transport
        if transport.path is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._sock = sock
            sock.settimeout(timeout)
            sock.connect(transport.path)
        else:
            sock = socket.create_connection((transport.host, transport.port), timeout)
            self._sock = sock
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if transport.tls is not None:
                sock = transport.tls.wrap_socket(sock, server_hostname=transport.host)
        if self._shut:
            raise ConnectionAbortedError("canceled")
        self._sock = sock
        self._http = http.client.HTTPConnection(transport.host, transport.port)
        self._http.sock = sock
        self._http.response_class = functools.partial(_Response, connection=self)  # type: ignore[assignment]

    def begin(self, method: str, path: str, headers: Dict[str, Any], body: Optional[bytes], deadline: float) -> Any:
        """Sends a request and reads the head of its answer."""
        if self._http is None:
            self.open(max(deadline - time.monotonic(), 0.001))
        assert self._http is not None and self._sock is not None
        self.deadline = deadline
        self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
        self._http.request(method, path, body, headers)
        return self._http.getresponse()

    def shut(self) -> None:
        """Interrupts whoever uses it."""
        self._shut = True
        if self._sock is not None:
            try:
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        """Ends it."""
        if self._sock is not None:
            self._sock.close()


class Transport:
    """Where requests go, and the connections that are kept for the next."""

    def __init__(self, url: str, key: str, user_agent: Optional[str], tls: Optional[ssl.SSLContext]) -> None:
        self.path: Optional[str] = None
        self.tls: Optional[ssl.SSLContext] = None
        self.host, self.port, self._prefix = "localhost", 80, ""
        if url.startswith("unix:"):
            self.path = url[5:]
            if not self.path.startswith("/"):
                raise ValueError("the url of a Unix socket is unix: and an absolute path")
        else:
            self._take(url, tls)
        if not key or not all("!" <= character <= "~" for character in key):
            raise ValueError("the key is empty, or has characters that no header can carry")
        agent = f"headgate-python/{VERSION}" + (f" {user_agent}" if user_agent else "")
        if not all(" " <= character <= "~" for character in agent):
            raise ValueError("user_agent has characters that no header can carry")
        self._headers = {"Authorization": "Bearer " + key, "User-Agent": agent, "Accept": "application/json"}
        self._lock = threading.Lock()
        self._idle: List[_Connection] = []
        self._process = os.getpid()
        self.shown = url

    def _take(self, url: str, tls: Optional[ssl.SSLContext]) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("the url must look like http://host:port, https://host or unix:/path")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the url must hold no user and no password")
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path.rstrip("/")
        if parts.scheme == "https":
            self.tls = tls or ssl.create_default_context()

    def call(
        self,
        method: str,
        path: str,
        headers: Dict[str, Any],
        body: Optional[bytes],
        timeout: float,
        cancel: Optional[Cancel] = None,
        bytes_max: int = ANSWER_BYTES_MAX,
    ) -> Answer:
        """One request, and its answer; a kept connection that turns out to be closed is replaced at once."""
        deadline = time.monotonic() + timeout
        while True:
            connection = self._lend()
            try:
                return self._exchange(connection, (method, path, headers, body), deadline, cancel, bytes_max)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                stopped = cancel is not None and cancel.canceled
                if connection.used and not stopped and not isinstance(error, socket.timeout):
                    continue
                raise _lost(error, self.shown) from None
            except BaseException:
                connection.close()
                raise
            finally:
                if cancel is not None:
                    cancel.watch(None)

    def _exchange(
        self,
        connection: _Connection,
        request: Tuple[str, str, Dict[str, Any], Optional[bytes]],
        deadline: float,
        cancel: Optional[Cancel],
        bytes_max: int,
    ) -> Answer:
        if cancel is not None:
            cancel.watch(connection)
        method, path, headers, body = request
        own = {"Content-Length": "0"} if body is None and method == "DELETE" else {}
        response = connection.begin(method, self._prefix + path, {**self._headers, **headers, **own}, body, deadline)
        connection.used = False  # this one is alive: what breaks now is an error
        body_read: bytes = response.read(bytes_max + 1)
        if len(body_read) > bytes_max:
            connection.close()
            return Answer(response.status, response.headers, None)
        if response.length:
            raise http.client.IncompleteRead(body_read, response.length)
        if response.will_close or not response.isclosed():
            connection.close()
        else:
            self._take_back(connection)
        return Answer(response.status, response.headers, body_read)

    def stream(self, path: str, headers: Dict[str, str], timeout: float, cancel: Cancel) -> Tuple[Any, _Connection]:
        """A request whose answer is read as it comes, on a connection of its own."""
        connection = _Connection(self)
        cancel.watch(connection)
        try:
            deadline = time.monotonic() + timeout
            return connection.begin("GET", self._prefix + path, {**self._headers, **headers}, None, deadline), connection
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _lost(error, self.shown) from None
        except BaseException:
            connection.close()
            raise

    def _lend(self) -> _Connection:
        with self._lock:
            if self._process != os.getpid():
                # They belong to the process that this one was forked from.
                self._process, self._idle = os.getpid(), []
            if self._idle:
                connection = self._idle.pop()
                connection.used = True
                return connection
        return _Connection(self)

    def _take_back(self, connection: _Connection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_MAX and self._process == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def renew(self) -> None:
        """After a fork, in the child: nothing of the parent's is used, no lock is believed."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes the connections that are kept."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _lost(error: Exception, url: str) -> HeadgateError:
    if isinstance(error, socket.timeout):
        return HeadgateError("TIMEOUT", f"no answer from {url} in time", retryable=True)
    why = str(error) or type(error).__name__
    return HeadgateError("CONNECTION", f"no answer from {url}: {why}", retryable=True)
