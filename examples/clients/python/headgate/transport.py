"""One request and its answer over ``http.client``, with kept connections, a deadline and cancellation.

The key goes into ``Authorization`` and nowhere else; redirects are answers like others.
"""

from __future__ import annotations

import functools
import http.client
import io
import os
import select
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, List, Optional, Tuple

from .errors import HeadgateError
from .verdict import Answer, Headers

VERSION = "0.1.0"
#: Of an answer no more is read.
ANSWER_BYTES_MAX = 1 << 20
PAGE_BYTES_MAX = 64 << 20
_IDLE_MAX = 8
_INTERIM_MAX = 100


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

    def _read_status(self) -> Tuple[str, int, str]:
        """Skips interim answers (1xx): the library knows only one of them, and takes the others for the answer."""
        for _ in range(_INTERIM_MAX):
            found: Tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            if not 100 <= found[1] < 200 or found[1] == 101:
                return found
            http.client.parse_headers(self.fp)
        raise http.client.HTTPException("the server sent only interim responses")


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
        #: Whether a request has begun to leave, and is not answered yet.
        self.left = False

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

    def begin(
        self,
        method: str,
        path: str,
        headers: Dict[str, Any],
        body: Optional[bytes],
        deadline: float,
        leaving: Optional[Callable[[], object]] = None,
    ) -> Any:
        """Sends a request and reads the head of its answer."""
        if self._http is None:
            self.open(max(deadline - time.monotonic(), 0.001))
        assert self._http is not None and self._sock is not None
        self.deadline = deadline
        self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
        if leaving is not None:
            leaving()
        self.left = True
        try:
            self._http.request(method, path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a long body answers before it has read all of it.
            return self._http.getresponse()
        return self._http.getresponse()

    def is_stale(self) -> bool:
        """Whether the server has closed it: what would leave on it could not be told from what was taken."""
        if self._sock is None:
            return True
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([self._sock], [], [], 0)[0])

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
                raise ValueError("the URL of a Unix socket must be unix: and an absolute path")
        else:
            self._take(url, tls)
        agent = f"headgate-python/{VERSION}" + (f" {user_agent}" if user_agent else "")
        if not all(" " <= character <= "~" for character in agent):
            raise ValueError("user_agent has characters that are not allowed in a header")
        self._headers = {"User-Agent": agent, "Accept": "application/json"}
        #: How often the key was changed.
        self.changes = 0
        self.set_key(key)
        self._lock = threading.Lock()
        self._idle: List[_Connection] = []
        self._process = os.getpid()
        self.shown = url

    def _take(self, url: str, tls: Optional[ssl.SSLContext]) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("the URL must be http://host:port, https://host or unix:/path")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL must not have a user or a password; pass the key separately")
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path.rstrip("/")
        if parts.scheme == "https":
            self.tls = tls or ssl.create_default_context()

    def set_key(self, key: str) -> None:
        """Requests have this key from now on."""
        if not key or not all("!" <= character <= "~" for character in key):
            raise ValueError("the key is empty, or has characters that are not allowed in a header")
        self._headers = {**self._headers, "Authorization": "Bearer " + key}
        self.changes += 1

    def call(
        self,
        method: str,
        path: str,
        headers: Dict[str, Any],
        body: Optional[bytes],
        timeout: float,
        cancel: Optional[Cancel] = None,
        bytes_max: int = ANSWER_BYTES_MAX,
        leaving: Optional[Callable[[], object]] = None,
    ) -> Answer:
        """One request, and its answer; a kept connection that turns out to be closed is replaced at once.

        ``leaving`` is called before the first byte of the request leaves.
        """
        deadline = time.monotonic() + timeout
        unknown = False
        while True:
            connection = self._lend()
            try:
                request = (method, path, headers, body)
                return self._exchange(connection, request, deadline, cancel, bytes_max, leaving)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                unknown = unknown or connection.left
                stopped = cancel is not None and cancel.canceled
                if connection.used and not stopped and not isinstance(error, socket.timeout):
                    continue
                raise _lost(error, self.shown, unknown) from None
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
        leaving: Optional[Callable[[], object]],
    ) -> Answer:
        if cancel is not None:
            cancel.watch(connection)
        method, path, headers, body = request
        own = {"Content-Length": "0"} if body is None and method == "DELETE" else {}
        told = {**self._headers, **headers, **own}
        response = connection.begin(method, self._prefix + path, told, body, deadline, leaving)
        connection.used = False  # this one is alive: what breaks now is an error
        body_read: bytes = response.read(bytes_max + 1)
        if len(body_read) > bytes_max:
            connection.close()
            error = HeadgateError("UNEXPECTED_ANSWER", f"the response from {self.shown} is longer than {bytes_max} bytes",
                                  status=response.status, retryable=True)
            error.unknown = True
            raise error
        if response.length:
            raise http.client.IncompleteRead(body_read, response.length)
        answer = Answer(response.status, Headers(response.getheaders()), body_read, self.shown)
        connection.left = False
        if response.will_close or not response.isclosed() or answer.own() is None:
            connection.close()
        else:
            self._take_back(connection)
        return answer

    def stream(self, path: str, headers: Dict[str, str], timeout: float, cancel: Cancel) -> Tuple[Any, _Connection]:
        """A request whose answer is read as it comes, on a connection of its own."""
        connection = _Connection(self)
        cancel.watch(connection)
        try:
            deadline = time.monotonic() + timeout
            return connection.begin("GET", self._prefix + path, {**self._headers, **headers}, None, deadline), connection
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _lost(error, self.shown, connection.left) from None
        except BaseException:
            connection.close()
            raise

    def _lend(self) -> _Connection:
        with self._lock:
            if self._process != os.getpid():
                # They belong to the process that this one was forked from.
                self._process, self._idle = os.getpid(), []
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_stale():
                    connection.used = True
                    return connection
                connection.close()
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


def _lost(error: Exception, url: str, unknown: bool) -> HeadgateError:
    if isinstance(error, socket.timeout):
        lost = HeadgateError("TIMEOUT", f"no response from {url} in time", retryable=True)
    else:
        why = str(error) or type(error).__name__
        lost = HeadgateError("CONNECTION", f"no response from {url}: {why}", retryable=True)
    lost.unknown = unknown
    return lost
