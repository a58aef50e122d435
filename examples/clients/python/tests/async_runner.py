"""The runner of the conformance kit with client and reader for asyncio: the loop runs in a thread, each op is a task there."""

import asyncio
import concurrent.futures
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import headgate  # noqa: E402

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


class TaskCancel:
    """Cancels a task, as a program does that uses asyncio."""

    def __init__(self):
        self.task, self.canceled = None, False

    def cancel(self):
        self.canceled = True
        if self.task is not None:
            self.task.cancel()


def run(work, cancel=None):
    """Runs a coroutine in the loop, and waits for it here."""
    task = asyncio.run_coroutine_threadsafe(work, LOOP)
    if cancel is not None:
        cancel.task = task
        if cancel.canceled:
            task.cancel()
    try:
        return task.result()
    except concurrent.futures.CancelledError:
        raise headgate.HeadgateError("CANCELED", "the task was canceled") from None


async def made(make, arguments):
    return make(**arguments)


class Client:
    """What the runner knows, done by an :class:`headgate.AsyncClient`."""

    def __init__(self, url, key, **options):
        self.client = headgate.AsyncClient(url, key, **options)

    def __repr__(self):
        return repr(self.client)

    def send(self, items, cancel=None, **options):
        return run(self.client.send(items, **options), cancel)

    def set_key(self, key):
        self.client.set_key(key)

    def batcher(self, **options):
        return Batcher(run(made(self.client.batcher, options)))

    def request(self, request_id):
        return run(self.client.request(request_id))

    def wait(self, sent, **options):
        return run(self.client.wait(sent, **options))

    def remove(self, stream, key):
        return run(self.client.remove(stream, key))


class Batcher:
    """The same of an :class:`headgate.AsyncBatcher`."""

    def __init__(self, batcher):
        self.batcher = batcher

    def __repr__(self):
        return repr(self.batcher)

    def add(self, item):
        run(self.batcher.add(item))

    def flush(self, **options):
        return run(self.batcher.flush(**options))

    def close(self, **options):
        return run(self.batcher.close(**options))

    @property
    def stats(self):
        return self.batcher.stats


class Reader:
    """The same of an :class:`headgate.AsyncReader`."""

    def __init__(self, url, key, **options):
        self.reader = headgate.AsyncReader(url, key, **options)

    def __repr__(self):
        return repr(self.reader)

    def items(self, stream, **options):
        return stepped(self.reader.items(stream, **options))

    def item(self, stream, key):
        return run(self.reader.item(stream, key))

    def follow(self, streams, since):
        return stepped(self.reader.follow(streams, since))

    def view(self, stream):
        return View(run(made(self.reader.view, {"stream": stream})))


class View:
    """The same of an :class:`headgate.AsyncView`."""

    def __init__(self, view):
        self.view = view

    def __getattr__(self, name):
        return getattr(self.view, name)

    def close(self):
        run(self.view.close())


def stepped(values):
    """What an asynchronous iterator gives, until nobody wants more."""
    try:
        while True:
            try:
                yield run(values.__anext__())
            except StopAsyncIteration:
                return
    finally:
        run(values.aclose())


headgate.Client, headgate.Reader, headgate.Cancel = Client, Reader, TaskCancel
import runner  # noqa: E402, F401
