"""A client library against the real daemon, through its runner: sending, waiting, reading, following, and kills.

    python3 tests/clients/daemon.py target/debug/headgate -- python3 examples/clients/python/tests/runner.py

What follows `--` is the runner, as for run.py. Ports and folder are its own. What is waited for has a bound that only a
hang reaches.
"""

import argparse
import contextlib
import http.client
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from run import Runner

KEY = "ik_live_for_the_stream_of_this_test"
REVOKED_KEY = "ik_live_that_no_connector_has_any_more"
READ_KEY = "rk_live_for_the_reader_of_this_test"
LONG = 120.0
LONG_MS = 120_000
ITEMS, KILLS = 10_000, 5
CONFIGURATION = f"""
[[streams]]
name = "orders"

[[connectors]]
name = "shop"
kind = "ingest"
keys = [{{ name = "main", stream = "orders", secret = "{KEY}" }}]

[[read_keys]]
name = "screen"
streams = ["orders"]
secret = "{READ_KEY}"
"""


class Daemon:
    """A daemon of a folder of its own, which can be killed and started again."""

    def __init__(self, program, folder):
        self.program, self.folder, self.child = os.path.abspath(program), folder, None
        Path(folder, "headgate.toml").write_text(CONFIGURATION)
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.service, self.admin = ("127.0.0.1:%d" % each.getsockname()[1] for each in sockets)
        for each in sockets:
            each.close()
        self.url = "http://" + self.service
        self.start()

    def start(self):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        clean.update(HEADGATE_SERVER__LISTEN=self.service, HEADGATE_ADMIN__LISTEN=self.admin)
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.child = subprocess.Popen([self.program, "serve", "--config", "headgate.toml"], cwd=self.folder,
                                          env=clean, stdout=log, stderr=log)
        eventually("the daemon listens", self.listens)

    def listens(self):
        assert self.child.poll() is None, "the daemon has ended: " + Path(self.folder, "log").read_text()[-2000:]
        host, port = self.service.split(":")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            return False
        return True

    def text(self, path):
        """What it answers, as it stands."""
        connection = http.client.HTTPConnection(self.service, timeout=LONG)
        connection.request("GET", path, headers={"Authorization": "Bearer " + READ_KEY})
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def values(self):
        """The field `value` of every item, asked page after page, whatever the library can read."""
        found, after = [], ""
        while after is not None:
            page = json.loads(self.text("/api/streams/orders/items?limit=1000" + after))
            found += [(item["key"], item["fields"].get("value")) for item in page["data"]]
            after = page.get("next") and "&cursor=" + page["next"]
        assert len(found) == len(dict(found)), "an item came twice"
        return dict(found)

    def kill(self):
        self.child.kill()
        self.child.wait()


class Library:
    """A library, told what to do as the kit tells it."""

    def __init__(self, command, daemon):
        self.runner = Runner(command, {}, False)
        self.do("client", url=daemon.url, key=KEY, backoff_max_ms=1000)
        reader = self.runner.hear(self.begin("reader", url=daemon.url, key=READ_KEY), LONG)
        self.reads = "ok" in reader
        assert self.reads or reader["error"]["code"] == "UNKNOWN_OP", reader

    def begin(self, op, **members):
        return self.runner.tell({"op": op, **members})

    def end(self, number):
        answer = self.runner.hear(number, LONG)
        assert "ok" in answer, answer
        return answer["ok"]

    def do(self, op, **members):
        return self.end(self.begin(op, **members))

    def refused(self, op, **members):
        answer = self.runner.hear(self.begin(op, **members), LONG)
        assert "error" in answer, answer
        return answer["error"]

    def close(self):
        self.do("exit")
        assert self.runner.p.wait(LONG) == 0, self.runner.stderr()


def eventually(what, holds):
    end = time.monotonic() + LONG
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {LONG} s: {what}"
        time.sleep(0.01)
    return found


def numbers(begin, end, value=None):
    fields = {} if value is None else {"value": value}
    return [json.dumps({"id": number, **fields}) for number in range(begin, end)]


def one_by_one(daemon, library):
    """Send, wait, remove; and what the library reads of it."""
    first = dict(items=['{"id": "a/b", "total": 1.10}'], one=True, item_key="id", idempotency_key="first")
    receipt = library.do("send", **first)
    assert (receipt["stream"], receipt["items_received"], receipt["replayed"]) == ("orders", 1, False), receipt
    again = library.do("send", **first)
    assert again["replayed"] and again["request_id"] == receipt["request_id"], again
    assert library.do("wait", timeout_ms=LONG_MS)["status"] == "processed"
    stored = daemon.text("/api/streams/orders/items/a%2Fb")
    assert '"total":1.10' in stored.replace(" ", ""), stored
    if library.reads:
        reading(daemon, library)
    else:
        library.do("send", items=numbers(0, 250), item_key="id")
        library.do("remove", stream="orders", key="7")
        assert library.do("wait", timeout_ms=LONG_MS)["status"] == "removed"
    keys = sorted({"a/b", *map(str, range(250))} - {"7"})
    eventually("the pool has what was sent", lambda: sorted(daemon.values()) == keys)


def reading(daemon, library):
    """Read back, follow, view."""
    item = library.do("item", stream="orders", key="a/b")["item"]
    assert item["key"] == "a/b" and item["fields"]["total"] == 1.1, item
    assert library.do("item", stream="orders", key="none").get("item") is None
    refused = library.refused("follow", streams=["none"], count=1)
    assert refused["status"] in (403, 404), refused

    [snapshot] = library.do("follow", streams=["orders"], count=1)["messages"]
    assert snapshot["type"] == "snapshot" and snapshot["complete"], snapshot
    assert snapshot["items"][0]["key"] == "a/b", snapshot
    library.do("view", stream="orders")
    viewed = lambda: library.do("viewed", stream="orders")  # noqa: E731
    eventually("the view has the item", lambda: viewed()["complete"] and list(viewed()["items"]) == ["a/b"])
    library.do("send", items=numbers(0, 250), item_key="id")
    library.do("wait", timeout_ms=LONG_MS)
    eventually("the view has what was sent", lambda: len(viewed()["items"]) == 251 and not viewed()["stale"])
    last, told = snapshot["id"], set()
    while len(told) < 250:
        [message] = library.do("follow", streams=["orders"], since=last, count=1)["messages"]
        assert message["type"] == "update", message
        told.update(each["key"] for each in message["items"])
        last = message["id"]
    library.do("remove", stream="orders", key="7")
    library.do("wait", timeout_ms=LONG_MS)
    eventually("the view knows what was removed", lambda: "7" not in viewed()["items"])
    library.do("unview", stream="orders")
    [removed] = library.do("follow", streams=["orders"], since=last, count=1)["messages"]
    assert removed["type"] == "remove" and removed["keys"] == ["7"], removed
    keys = [item["key"] for item in library.do("items", stream="orders", page=100)["items"]]
    assert len(keys) == len(set(keys)) == 250, len(keys)


def of_kills(daemon, library):
    """Every item arrives, once and with its last value, however often the daemon is killed."""
    for begin in range(0, ITEMS, 1000):
        library.do("send", items=numbers(begin, begin + 1000, "old"), item_key="id")
    library.do("batcher", item_key="id", max_items=100, linger_ms=20)
    stats = lambda: library.do("stats")  # noqa: E731
    half, some = ITEMS // 2, ITEMS // 2 // KILLS
    adding = library.begin("add", items=numbers(0, half, "new"), **{"as": "adding"})
    for kill in range(KILLS):
        before = stats()
        eventually("items are accepted", lambda: (now := stats())["accepted"] > before["accepted"] or not now["queued"])
        daemon.kill()
        if kill == 0:
            assert library.end(adding)["added"] == half
        begin = half + kill * some
        assert library.do("add", items=numbers(begin, begin + some, "new"))["added"] == some
        eventually("a request has failed", lambda: stats()["retries"] > before["retries"])
        daemon.start()
    flushed, now, events = library.do("flush", timeout_ms=LONG_MS), stats(), library.do("events")
    assert flushed["done"] and not events["rejected"], (flushed, now, events["rejected"])
    assert (now["accepted"], now["rejected"]) == (ITEMS, 0), now
    assert sum(each["items"] for each in events["accepted"]) == ITEMS, now
    assert now["retries"] >= KILLS, now
    new = {str(number): "new" for number in range(ITEMS)}
    eventually("the pool has the last values", lambda: daemon.values() == new)
    print(f"{now['accepted']} items accepted over {KILLS} kills, with {now['retries']} retries")


class Way:
    """What lies between a client and the daemon: a portal, whose page answers every request, or an open way."""

    PAGES = (
        b"HTTP/1.1 302 Found\r\nlocation: http://portal.invalid/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 20\r\n\r\n<html>Sign in</html>",
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/html\r\ncontent-length: 16\r\n\r\n<html>No!</html>",
        b"HTTP/1.1 511 Network Authentication Required\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n",
    )

    def __init__(self, daemon):
        self.daemon, self.open, self.pages = daemon, False, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on if self.open else self.page, args=(client,), daemon=True).start()

    def page(self, client):
        """Answers one request, and closes."""
        with client, client.makefile("rb") as request:
            length = 0
            while line := request.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            request.read(length)
            page = self.PAGES[self.pages % len(self.PAGES)]
            self.pages += 1
            client.sendall(page)

    def pass_on(self, client):
        host, port = self.daemon.service.split(":")
        try:
            server = socket.create_connection((host, int(port)))
        except OSError:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    @staticmethod
    def pump(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        # Also after a kill: whoever waits for an answer hears that there is none.
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)


def of_portals_and_keys(daemon, library):
    """What was added behind a portal and with a revoked key arrives, once, when both are over, though the daemon is killed
    in between; no file is given up."""
    way, folder = Way(daemon), os.path.join(daemon.folder, "spool")
    library.do("client", url=way.url, key=REVOKED_KEY, backoff_ms=5, backoff_max_ms=50)
    library.do("batcher", item_key="id", max_items=100, linger_ms=20, spool=folder)
    stats = lambda: library.do("stats")  # noqa: E731
    half = ITEMS // 2
    assert library.do("add", items=numbers(0, half, "new"))["added"] == half
    eventually("every page of the portal was shown", lambda: way.pages >= 2 * len(way.PAGES))
    now = stats()
    assert (now["state"], now["accepted"], now["rejected"]) == ("retrying", 0, 0), now
    way.open = True
    eventually("the key is refused", lambda: stats()["state"] == "blocked")
    assert library.do("add", items=numbers(half, ITEMS, "new"))["added"] == ITEMS - half
    now = stats()
    assert (now["code"], now["accepted"], now["rejected"]) == ("UNAUTHORIZED", 0, 0), now
    library.do("set_key", key=KEY)
    for _ in range(KILLS):
        before = stats()["accepted"]
        eventually("items are accepted", lambda: stats()["accepted"] > before or before == ITEMS)
        daemon.kill()
        daemon.start()
    flushed, now, events = library.do("flush", timeout_ms=LONG_MS), stats(), library.do("events")
    assert flushed["done"] and flushed["state"] == "ok", (flushed, now)
    assert (now["accepted"], now["rejected"], now["damaged"]) == (ITEMS, 0, 0), now
    assert sum(each["items"] for each in events["accepted"]) == ITEMS, now
    assert not [name for name in os.listdir(folder) if not name.startswith(".")], os.listdir(folder)
    new = {str(number): "new" for number in range(ITEMS)}
    eventually("the pool has every item", lambda: daemon.values() == new)
    way.socket.close()
    print(f"{now['accepted']} items accepted after {way.pages} pages, a revoked key and {KILLS} kills")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daemon")
    parser.add_argument("runner", nargs="+")
    told = parser.parse_args()
    for part in (one_by_one, of_kills, of_portals_and_keys):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="headgate-clients-") as folder:
            daemon, library = Daemon(told.daemon, folder), None
            try:
                library = Library(told.runner, daemon)
                part(daemon, library)
                library.close()
            finally:
                if library:
                    library.runner.stop()
                daemon.kill()
        print(f"PASS {part.__name__} ({time.monotonic() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
