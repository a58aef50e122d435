"""Two programs in two languages on one spool: the second is refused, and sends all of it once the first was killed.

    python3 tests/clients/together.py python3 examples/clients/python/tests/runner.py -- node examples/clients/node/conformance.js

Each of the two runners is the first once.

**Invariant**: every item of both programs arrives once, in the order in which they were added.
"""

import json
import sys
import tempfile
import time

from run import MAX, SECRET, Runner, Server, dead_url


def together(first, second):
    """The first has the folder and no server; the second has a server and no folder, until the first is gone."""
    _, dead = dead_url()
    server, runners = Server({}), []
    with tempfile.TemporaryDirectory(prefix="kit-") as folder:
        try:
            for command, url in ((first, dead), (second, server.url)):
                runners.append(Runner(command, {}, False))
                runners[-1].do({"op": "client", "url": url, "key": SECRET, "backoff_ms": 5})
            has, waits = runners
            batcher = {"op": "batcher", "item_key": "id", "max_items": 2, "spool": folder}
            has.do(batcher)
            has.do({"op": "add", "items": ['{"id": %d}' % each for each in range(4)]})
            has.do({"op": "flush", "timeout_ms": 100})
            end = time.monotonic() + MAX
            while has.do({"op": "stats"})["queued"]:  # until it is in files
                assert time.monotonic() < end
                time.sleep(0.01)
            refused = waits.hear(waits.tell(batcher))
            assert refused.get("error", {}).get("code") == "SPOOL_IN_USE", refused
            has.stop()
            waits.do(batcher)
            waits.do({"op": "add", "items": ['{"id": 4}']})
            flushed = waits.do({"op": "flush", "timeout_ms": 60_000})
            assert flushed["done"], flushed
            ids = [item["id"] for request in server.seen for item in json.loads(request["body"])]
            assert ids == [0, 1, 2, 3, 4], ids
        finally:
            for runner in runners:
                runner.stop()
            server.sock.close()


def main():
    at = sys.argv.index("--")
    commands = sys.argv[1:at], sys.argv[at + 1:]
    for first, second in (commands, commands[::-1]):
        together(first, second)
        print("PASS", first[-1], "then", second[-1])


if __name__ == "__main__":
    main()
