"""The library's own tests: what a scripted server cannot show."""

import asyncio
import errno
import json
import os
import sys
import tempfile
import threading
import time
import tracemalloc
import unittest
from decimal import Decimal
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from headgate import AsyncClient, AsyncReader, Client, HeadgateError, Receipt  # noqa: E402
from headgate.encoding import encode  # noqa: E402
from headgate.events import Parser  # noqa: E402
from headgate.spool import Kept, Mark, Spool  # noqa: E402
from headgate.uuids import saw, uuid7  # noqa: E402
from headgate.verdict import Verdict  # noqa: E402

LONG = 60.0


class Daemon:
    """Stands in for attempts: each is answered by a function."""

    def __init__(self, answer):
        self.answer, self.sent, self.lock = answer, [], threading.Lock()

    def attempt(self, submission, leaving, cancel):
        items = json.loads(submission.body)
        leaving()
        with self.lock:
            self.sent.append((submission.idempotency_key, [item["id"] for item in items]))
        refused = self.answer(items, cancel)
        return refused or Verdict("accepted", receipt=Receipt("orders", len(items), "r", False))


def batcher(folder, answer, **options):
    """A batcher of a client whose attempts are answered by a function."""
    client = Client("http://127.0.0.1:9", "ik_live_x", backoff=0.01, backoff_max=0.02)
    daemon = Daemon(answer)
    client.attempt = daemon.attempt
    return client, daemon, client.batcher(item_key="id", linger=0.0, spool=folder, **options)


def accepts(items, cancel):
    """Takes everything."""


def hangs(items, cancel):
    """Answers nothing until it is canceled."""
    cancel.sleep(LONG)
    return Verdict("retrying", error=HeadgateError("CONNECTION", "canceled", retryable=True), unknown=True)


REFUSED = Verdict("refused", error=HeadgateError("INVALID_PAYLOAD", "refused", status=400))


def refuses_3(items, cancel):
    """Takes 1 and 2, refuses what has 3, and then hangs."""
    if len(items) > 1:
        return REFUSED
    return hangs(items, cancel) if items[0]["id"] == 3 else None


def files(folder):
    """The batches there."""
    return sorted(name for name in os.listdir(folder) if name.endswith(".json"))


def until(holds):
    """Waits for what happens by itself."""
    gone = threading.Event()
    for _ in range(int(LONG * 100)):
        if holds():
            return
        gone.wait(0.01)
    raise AssertionError("it never happened")


class Spooling(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)
        self.folder = self.kept.name

    def test_batches_are_written_while_a_request_hangs(self):
        client, daemon, made = batcher(self.folder, hangs, max_items=2)
        for number in range(6):
            made.add({"id": number})
        until(lambda: sum(len(json.loads(Path(self.folder, name).read_text().split("\n")[1]))
                          for name in files(self.folder)) == 6)
        until(lambda: len(daemon.sent) == 1)
        made.close(0)
        client.close()

    def test_what_a_full_disk_does_not_take_is_sent_from_memory_and_told(self):
        told, real, times = [], Spool.write, iter(range(1000))

        def full(spool, *batch):
            if next(times) < 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(spool, *batch)

        with mock.patch.object(Spool, "write", full), self.assertLogs("headgate", "WARNING"):
            client, daemon, made = batcher(self.folder, accepts, max_items=1,
                                           on_state=lambda state, code: told.append((state, code)))
            for number in range(5):
                made.add({"id": number})
                self.assertTrue(made.flush(LONG).done)
            self.assertTrue(made.close(LONG).done)
        self.assertEqual(told, [("retrying", "SPOOL"), ("ok", "SPOOL")])
        self.assertEqual([ids for _, ids in daemon.sent], [[0], [1], [2], [3], [4]])
        self.assertEqual((made.stats.accepted, made.stats.rejected), (5, 0))
        self.assertEqual(files(self.folder), [])

    def test_what_a_full_disk_never_took_is_handed_over_at_the_end(self):
        lost = []

        def full(spool, *batch):
            raise OSError(errno.ENOSPC, "No space left on device")

        with mock.patch.object(Spool, "write", full), self.assertLogs("headgate", "WARNING"):
            client, daemon, made = batcher(self.folder, hangs, max_items=2,
                                           on_rejected=lambda items, error: lost.extend(item["id"] for item in items))
            for number in range(5):
                made.add({"id": number})
            self.assertFalse(made.close(0).done)
        # What was being written just then is handed over by the thread that wrote it.
        self.assertEqual(sorted(lost), [0, 1, 2, 3, 4])

    def test_a_real_write_error_leaves_no_part(self):
        spool = Spool(self.folder, 1 << 30)
        with mock.patch("os.fsync", side_effect=OSError(errno.ENOSPC, "full")), self.assertRaises(OSError):
            spool.write(uuid7(time.time()), "id", None, b"[]")
        spool.close()
        self.assertEqual(sorted(os.listdir(self.folder)), [".lock", ".state"])

    def test_a_folder_has_one_batcher_at_a_time(self):
        client, daemon, made = batcher(self.folder, accepts)
        with self.assertRaises(HeadgateError) as raised:
            client.batcher(item_key="id", spool=self.folder)
        self.assertEqual(raised.exception.code, "SPOOL_IN_USE")
        made.close(LONG)
        client.batcher(item_key="id", spool=self.folder).close(LONG)

    def test_a_file_stays_until_all_parts_are_settled_and_parts_keep_their_keys(self):
        key = self.leave('[{"id":1},{"id":2},{"id":3},{"id":4}]')
        lives, lost = [], []
        for answer in (refuses_3, accepts_one):
            client, daemon, made = batcher(self.folder, answer, on_rejected=lambda items, error: lost.extend(items))
            until(lambda: any(ids == [3] for _, ids in daemon.sent))
            if answer is refuses_3:
                self.assertEqual(files(self.folder), [key + ".json"])
            made.close(0 if answer is refuses_3 else LONG)
            lives.append({tuple(ids): key for key, ids in daemon.sent})
        self.assertEqual((lost, files(self.folder)), ([], []))
        first, second = lives
        self.assertEqual(second, {(3,): key + "/2/1", (4,): key + "/3/1"})
        self.assertEqual(first[(3,)], second[(3,)])

    def leave(self, body, stream=None):
        """A batch of an earlier life; its key."""
        key = uuid7(time.time())
        head = {"v": 1, "idempotency_key": key, "item_key": "id", "stream": stream, "created": 1}
        Path(self.folder, key + ".json").write_text(json.dumps(head) + "\n" + body)
        return key

    def test_what_was_spooled_keeps_its_digits(self):
        text = '[{"id":-0,"a":1.10,"b":1E+400,"c":%s}]' % ("9" * 5000)
        key = self.leave(text)
        spool = Spool(self.folder, 1 << 30)
        kept = spool.read(key)
        spool.close()
        self.assertIsInstance(kept, Kept)
        self.assertEqual(encode(kept.items), text.encode())

    def test_a_large_spool_is_not_read_before_its_turn(self):
        self.leave('[{"id":1}]')
        for _ in range(300):
            key = uuid7(time.time())
            with open(os.path.join(self.folder, key + ".json"), "wb") as file:
                file.truncate(4 << 20)  # a hole: it would be 4 MiB in memory
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        client, daemon, made = batcher(self.folder, hangs)
        until(lambda: daemon.sent)
        self.assertEqual((made.stats.spooled, made.stats.spooled_bytes), (300, 300 << 22))
        made.close(0)
        self.assertLess(tracemalloc.get_traced_memory()[1], 2 << 20)
        self.assertEqual(len(files(self.folder)), 301)

    def test_a_mark_that_makes_no_sense_says_nothing(self):
        spool = Spool(self.folder, 1 << 30)
        self.assertEqual(spool.marked("k", 4), Mark("k", None, None))
        spool.mark(Mark("k", 7.5, [(1, 1), (2, 2)]))
        self.assertEqual(spool.marked("k", 4), Mark("k", 7.5, [(1, 1), (2, 2)]))
        self.assertEqual(spool.marked("k", 3), Mark("k", None, None))
        self.assertEqual(spool.marked("other", 4), Mark("other", None, None))
        self.assertEqual(os.path.getsize(os.path.join(self.folder, ".state")), 4096)
        spool.close()

    def test_names_grow_past_those_of_a_clock_that_was_ahead(self):
        ahead = uuid7(time.time() + 1000)
        saw("ffff" + ahead[4:])
        self.assertGreater(uuid7(0.0), "ffff" + ahead[4:])

    def test_refusals_are_kept_once_also_after_a_line_that_was_cut(self):
        spool = Spool(self.folder, 1 << 30)
        path = Path(self.folder, "rejected", "k.json")
        line = {"v": 1, "idempotency_key": "k/0/1", "item_key": None, "error": {"code": "INVALID_PAYLOAD"}}
        spool.reject("k", line, b'[{"id":1}]')
        spool.close()
        path.write_bytes(path.read_bytes() + b'{"v":1,"idemp')
        spool = Spool(self.folder, 1 << 30)
        spool.reject("k", line, b'[{"id":1}]')
        spool.reject("k", {**line, "idempotency_key": "k/1/1"}, b'[{"id":2}]')
        spool.close()
        kept = [json.loads(text) for text in path.read_text().splitlines()]
        self.assertEqual([(each["idempotency_key"], each["items"]) for each in kept], [("k/0/1", [{"id": 1}]), ("k/1/1", [{"id": 2}])])

    def test_the_oldest_refusals_go_and_what_was_not_refused_stays(self):
        spool = Spool(self.folder, 10 * 3 * 4096)
        codes = ["INVALID_PAYLOAD", "EXPIRED", "INVALID_PAYLOAD", "MISMATCH", "INVALID_PAYLOAD"]
        keys = [uuid7(time.time()) for _ in codes]
        with self.assertLogs("headgate", "WARNING") as said:
            for key, code in zip(keys, codes):
                line = {"v": 1, "idempotency_key": key, "item_key": None, "error": {"code": code}}
                spool.reject(key, line, b'[{"id":1}]')
        self.assertEqual((spool.rejected_lost, len(said.output)), (2, 1))
        spool.close()
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "rejected"))), [keys[index] + ".json" for index in (1, 3, 4)])

    def test_a_file_that_cannot_be_read_now_is_read_later(self):
        key, real, times, told = self.leave('[{"id":1}]'), Spool.read, iter(range(1000)), []

        def fails(spool, name):
            if next(times) < 2:
                raise OSError(errno.EMFILE, "Too many open files")
            return real(spool, name)

        with mock.patch.object(Spool, "read", fails), self.assertLogs("headgate", "WARNING"):
            client, daemon, made = batcher(self.folder, accepts, on_state=lambda *state: told.append(state))
            until(lambda: daemon.sent)
            self.assertTrue(made.close(LONG).done)
        self.assertEqual((daemon.sent, told), ([(key, [1])], [("retrying", "SPOOL"), ("ok", "SPOOL")]))

    def test_a_refusal_that_cannot_be_kept_now_is_kept_later_and_told_once(self):
        lost, real, times = [], Spool._append, iter(range(1000))

        def full(spool, *line):
            if next(times) < 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(spool, *line)

        with mock.patch.object(Spool, "_append", full), self.assertLogs("headgate", "WARNING"):
            client, daemon, made = batcher(self.folder, lambda items, cancel: REFUSED,
                                           on_rejected=lambda items, error: lost.append(items))
            made.add({"id": 1})
            self.assertTrue(made.close(LONG).done)
        self.assertEqual((lost, files(self.folder)), ([[{"id": 1}]], []))
        self.assertEqual(len(os.listdir(os.path.join(self.folder, "rejected"))), 1)

    def test_files_are_for_their_owner_alone(self):
        client, daemon, made = batcher(self.folder, hangs)
        made.add({"id": 1})
        until(lambda: daemon.sent)
        for name in (*files(self.folder), ".state", ".owner"):
            self.assertEqual(os.stat(os.path.join(self.folder, name)).st_mode & 0o777, 0o600, name)
        made.close(0)

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork")
    def test_a_forked_child_has_no_spool_and_leaves_that_of_its_parent(self):
        client, daemon, made = batcher(self.folder, accepts)
        child = os.fork()
        if child == 0:
            made.add({"id": 1})
            done = made.close(LONG).done and [ids for _, ids in daemon.sent] == [[1]] and files(self.folder) == []
            os._exit(0 if done and os.path.exists(os.path.join(self.folder, ".owner")) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        with self.assertRaises(HeadgateError):
            client.batcher(item_key="id", spool=self.folder)
        made.close(LONG)
        self.assertFalse(os.path.exists(os.path.join(self.folder, ".owner")))

    def test_a_batcher_stops_when_its_folder_was_taken_over(self):
        client, daemon, made = batcher(self.folder, hangs)
        made._look_at = 0.0
        os.remove(os.path.join(self.folder, ".owner"))
        with self.assertLogs("headgate", "ERROR"):
            made.add({"id": 1})
            until(lambda: made._delivery.stopped)
        with self.assertRaises(HeadgateError) as raised:
            made.add({"id": 2})
        self.assertEqual(raised.exception.code, "CLOSED")

    def test_a_client_forgets_batchers_that_are_closed(self):
        client, daemon, made = batcher(self.folder, accepts)
        self.assertEqual(len(client._batchers), 1)
        made.close(LONG)
        self.assertEqual(len(client._batchers), 0)


def accepts_one(items, cancel):
    """Takes items that stand alone."""
    return REFUSED if len(items) > 1 else None


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    """What the shared cases do not show: tasks, and the loop."""

    def client(self, answer):
        client = AsyncClient("http://127.0.0.1:9", "ik_live_x", backoff=0.01, backoff_max=0.02)
        daemon = Daemon(answer)
        client._client.attempt = daemon.attempt
        return client, daemon

    async def test_an_item_of_a_canceled_add_is_never_sent(self):
        gate = threading.Event()
        client, daemon = self.client(lambda items, cancel: None if gate.wait(LONG) else REFUSED)
        batcher = client.batcher(item_key="id", max_items=1, linger=0.0, queue_bytes=10)
        for number in range(2):
            await batcher.add({"id": number})
        while not daemon.sent:
            await asyncio.sleep(0.01)
        adds = [asyncio.create_task(batcher.add({"id": number})) for number in range(2, 40)]
        await asyncio.sleep(0.05)
        self.assertFalse(any(add.done() for add in adds))
        for add in adds[1:]:
            add.cancel()
        done = await asyncio.gather(*adds[1:], return_exceptions=True)
        self.assertTrue(all(isinstance(each, asyncio.CancelledError) for each in done), done)
        gate.set()
        await adds[0]
        self.assertTrue((await batcher.close(LONG)).done)
        self.assertEqual([ids for _, ids in daemon.sent], [[0], [1], [2]])

    async def test_callbacks_are_called_in_the_loop_before_flush_ends(self):
        told, here = [], threading.get_ident()
        client, daemon = self.client(accepts)
        async with client.batcher(item_key="id", linger=LONG, max_items=10, on_accepted=lambda receipt, items: told.append(
                (threading.get_ident(), len(items)))) as batcher:
            await asyncio.gather(*(batcher.add({"id": number}) for number in range(25)))
            self.assertTrue((await batcher.flush(LONG)).done)
            self.assertEqual((sum(count for _, count in told), {thread for thread, _ in told}), (25, {here}))
        await client.close()


class Following(unittest.IsolatedAsyncioTestCase):
    """With a server that says one message to each who follows, and then nothing until he is gone."""

    async def asyncSetUp(self):
        self.gone, self.server = asyncio.Queue(), await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.reader = AsyncReader(f"http://127.0.0.1:{port}", "rk_live_x", silence=10 * LONG)

    async def asyncTearDown(self):
        await self.reader.close()
        self.server.close()

    async def serve(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        message = {"type": "snapshot", "stream": "orders", "items": [], "complete": True, "id": "1:1"}
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1:1\ndata: " + json.dumps(message).encode() + b"\n\n")
        await reader.read()
        writer.close()
        await self.gone.put(True)

    async def all_gone(self, count):
        for _ in range(count):
            await asyncio.wait_for(self.gone.get(), LONG)

    async def test_more_follow_than_the_loop_has_threads_and_none_is_left(self):
        following = [self.reader.follow(["orders"]) for _ in range(50)]
        first = await asyncio.wait_for(asyncio.gather(*(each.__anext__() for each in following)), LONG)
        self.assertEqual({message["type"] for message in first}, {"snapshot"})
        await asyncio.gather(*(each.aclose() for each in following))
        await self.all_gone(50)

    async def test_a_task_that_is_canceled_ends_its_connection(self):
        told = asyncio.Queue()

        async def follow():
            async for message in self.reader.follow(["orders"]):
                await told.put(message)

        task = asyncio.create_task(follow())
        await asyncio.wait_for(told.get(), LONG)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.all_gone(1)

    async def test_a_view_waits_without_holding_the_loop_and_ends(self):
        async with self.reader.view("orders") as view:
            self.assertTrue(await view.wait(LONG))
            self.assertEqual((dict(view), view.complete, view.stale), ({}, True, False))
        await self.all_gone(1)

    async def test_wrong_streams_are_an_error_of_the_loop_that_asks(self):
        with self.assertRaises(TypeError):
            await self.reader.follow("orders").__anext__()


class Events(unittest.TestCase):
    def test_events_are_the_same_however_their_bytes_arrive(self):
        text = ("\ufeff: c\r\nid: 1\rdata: a\r\ndata:b\n\n" "data: ü\r\r\nid\ndata\n\nid: 9\ndata: cut").encode()
        whole = list(Parser().feed(text))
        self.assertEqual([(event.data, event.id) for event in whole], [("a\nb", "1"), ("ü", "1"), ("", "")])
        for size in range(1, len(text)):
            parser = Parser()
            pieces = [text[at:at + size] for at in range(0, len(text), size)]
            self.assertEqual([event for piece in pieces for event in parser.feed(piece)], whole, size)


class Encoding(unittest.TestCase):
    def test_decimals_are_exact(self):
        self.assertEqual(encode({"a": Decimal("1.10"), "b": 2**64}), b'{"a":1.10,"b":18446744073709551616}')


if __name__ == "__main__":
    unittest.main()
