"""The Python client against the real daemon: sending, waiting, reading, following, the README's lines, and kills.

    python3 tests/clients/daemon.py target/debug/headgate

Ports and folder are its own. What is waited for has a bound that only a hang reaches.
"""

import itertools
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from decimal import Decimal
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "examples/clients/python"
sys.path.insert(0, str(PACKAGE))
import headgate  # noqa: E402

KEY = "ik_live_for_the_stream_of_this_test"
READ_KEY = "rk_live_for_the_reader_of_this_test"
LONG = 120.0
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

    def kill(self):
        self.child.kill()
        self.child.wait()


def eventually(what, holds):
    end = time.monotonic() + LONG
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {LONG} s: {what}"
        time.sleep(0.01)
    return found


def one_by_one(daemon):
    """Send, wait, read back, follow, view, remove."""
    with headgate.Client(daemon.url, KEY) as client, \
            headgate.Reader(daemon.url, READ_KEY, parse_float=Decimal) as reader:
        receipt = client.send({"id": "a/b", "total": Decimal("1.10")}, item_key="id", idempotency_key="first")
        assert (receipt.stream, receipt.items_received, receipt.replayed) == ("orders", 1, False), receipt
        again = client.send({"id": "a/b", "total": Decimal("1.10")}, item_key="id", idempotency_key="first")
        assert again.replayed and again.request_id == receipt.request_id, again
        assert client.wait(receipt, timeout=LONG).status == "processed"
        item = reader.item("orders", "a/b")
        assert item is not None and str(item.fields["total"]) == "1.10", item
        assert reader.item("orders", "none") is None
        try:
            next(reader.follow(["none"]))
            raise AssertionError("a stream that the key may not read was followed")
        except headgate.HeadgateError as error:
            assert error.status in (403, 404), error

        following = reader.follow(["orders"])
        first = next(following)
        assert first["type"] == "snapshot" and first["complete"] and first["items"][0]["key"] == "a/b", first
        with reader.view("orders") as view:
            assert view.wait(LONG) and list(view) == ["a/b"]
            client.wait(client.send([{"id": number} for number in range(250)], item_key="id"), timeout=LONG)
            eventually("the view has what was sent", lambda: len(view) == 251 and not view.stale)
            told = set()
            while len(told) < 250:
                message = next(following)
                assert message["type"] == "update", message
                told.update(each["key"] for each in message["items"])
                last = message["id"]
            following.close()
            client.wait(client.remove("orders", "7"), timeout=LONG)
            eventually("the view knows what was removed", lambda: "7" not in view)
        removed = next(reader.follow(["orders"], last))
        assert removed["type"] == "remove" and removed["keys"] == ["7"], removed
        keys = [item.key for item in reader.items("orders", page=100)]
        assert len(keys) == len(set(keys)) == 250, len(keys)


def of_the_readme(daemon):
    """The lines of the README as they stand there, but for address and keys."""
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 2, len(blocks)
    for block, end in zip(blocks, ("processed", "complete")):
        for shown, real in (("http://127.0.0.1:8080", daemon.url), ("ik_live_…", KEY), ("rk_live_…", READ_KEY)):
            assert shown in block or "_live_" in shown, shown
            block = block.replace(shown, real)
        done = subprocess.run([sys.executable, "-c", block], cwd=daemon.folder, capture_output=True, text=True,
                              timeout=LONG, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        assert done.returncode == 0 and end in done.stdout and not done.stderr, (done.stdout, done.stderr)


def of_kills(daemon):
    """Every item arrives, once and with its last value, however often the daemon is killed."""
    given_up = []
    with headgate.Client(daemon.url, KEY, backoff_max=1.0) as client, \
            headgate.Reader(daemon.url, READ_KEY) as reader:
        for start in range(0, ITEMS, 1000):
            client.send([{"id": number, "value": "old"} for number in range(start, start + 1000)], item_key="id")
        batcher = client.batcher(item_key="id", max_items=100, linger=0.02,
                                 on_rejected=lambda items, error: given_up.append((len(items), error)))
        numbers = iter(range(ITEMS))
        adder = threading.Thread(target=lambda: [add(batcher, each) for each in itertools.islice(numbers, ITEMS // 2)])
        adder.start()
        for kill in range(KILLS):
            before = batcher.stats
            eventually("items are accepted", lambda: batcher.stats.accepted > before.accepted or batcher.stats.queued == 0)
            daemon.kill()
            if adder.is_alive():
                adder.join()
            for each in itertools.islice(numbers, ITEMS // 2 // KILLS):
                add(batcher, each)
            eventually("a request has failed", lambda: batcher.stats.retries > before.retries)
            daemon.start()
        result, stats = batcher.flush(LONG), batcher.stats
        assert result.done and not given_up, (result, given_up)
        assert (stats.accepted, stats.rejected) == (ITEMS, 0), stats
        assert stats.retries >= KILLS, stats
        new = {str(number): f"new {number}" for number in range(ITEMS)}
        eventually("the pool has the last values", lambda: values(reader) == new)
        print(f"{stats.accepted} items accepted over {KILLS} kills, with {stats.retries} retries")


def add(batcher, number):
    batcher.add({"id": number, "value": f"new {number}"})


def values(reader):
    return {item.key: item.fields.get("value") for item in reader.items("orders", page=1000) if item.key != "a/b"}


def main():
    for part in (one_by_one, of_the_readme, of_kills):
        with tempfile.TemporaryDirectory(prefix="headgate-clients-") as folder:
            daemon = Daemon(sys.argv[1], folder)
            try:
                part(daemon)
            finally:
                daemon.kill()
        print("PASS", part.__name__, flush=True)


main()
