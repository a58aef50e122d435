"""What the runner of the conformance kit does for verdicts and scripts: one attempt, and hours in virtual time.

Nothing here is the library's interface. No thread of a batcher runs: its turns are taken here, in order of the times at
which they are due, and attempts are answered by the kit, over standard input and output.
"""

import errno
import json
import os
import sys

import headgate
from headgate import spool as spools
from headgate.batcher import Batcher
from headgate.encoding import encode
from headgate.errors import HeadgateError
from headgate.queue import body_of
from headgate.transport import Cancel
from headgate.verdict import Answer, Headers, judge, lost, pause
from headgate.wire import Submission

NEVER = float("inf")


class Time:
    """Both clocks, which only the kit moves."""

    def __init__(self, wall, mono):
        self.now, self.ahead = mono, wall - mono

    def mono(self):
        return self.now

    def wall(self):
        return self.now + self.ahead

    def jump(self, seconds):
        self.ahead += seconds

    def go(self, batcher, seconds):
        """So much goes by, and all that is due is done."""
        self.until(batcher, self.now + seconds, lambda: False)

    def until(self, batcher, end, done):
        """Takes turns in order; writing goes before sending."""
        while not done():
            with batcher._lock:
                write, send = batcher._write_due(), batcher._send_due()
            due = min(write, send)
            if due > end:
                break
            self.now = max(self.now, due)
            (batcher._write_turn if write <= max(send, self.now) else batcher._send_turn)()
        else:
            return
        self.now = max(self.now, end)

    def flush(self, batcher, seconds):
        return vars(self.flushed(batcher, seconds))

    def flushed(self, batcher, seconds):
        with batcher._lock:
            target = batcher._flush_all()
        self.until(batcher, self.now + seconds, lambda: batcher._flushed(target))
        with batcher._lock:
            return batcher._result(target)

    def close(self, batcher, seconds):
        batcher._begin_close()
        result = self.flushed(batcher, seconds)
        batcher._stop()
        while batcher._write_due() < NEVER:
            batcher._write_turn()
        return vars(batcher._finish(result))


def tell(**line):
    print(json.dumps(line), flush=True)


def opened(time, key, options):
    """A client whose attempts the kit answers, and a batcher of it that takes no turn by itself."""
    Batcher._start = lambda self: None
    os.fsync = lambda descriptor: None  # a crash here is that of a process: what it wrote stays
    client = headgate.Client("http://127.0.0.1:9", key)
    client._clock, client._random = time, lambda: 1.0

    def attempt(submission, leaving, cancel):
        leaving()
        auth = client._transport._headers["Authorization"].split(" ")[1]
        tell(ask={"at_ms": time.mono() * 1000, "key": submission.idempotency_key, "auth": auth,
                  "path": submission.path, "body": submission.body.decode()})
        answer = json.loads(sys.stdin.readline())["answer"]
        if "set_key" in answer:
            client.set_key(answer["set_key"])
        if "no" in answer:
            return lost(without_answer(answer["no"]))
        return judge(answered(answer), submission.count, time.wall())

    client.attempt = attempt
    batcher = client.batcher(
        on_accepted=lambda got, sent: tell(event=["accepted", len(sent), got.replayed]),
        on_rejected=lambda sent, error: tell(event=["rejected", error.code, [item["id"] for item in sent]]),
        on_state=lambda state, code: tell(event=["state", state, code]), **options)
    return client, batcher


def answered(answer):
    headers = Headers([(name, value) for name, value in answer["headers"]])
    return Answer(answer["status"], headers, answer["body"].encode(), "http://127.0.0.1:9")


def without_answer(why):
    code = {"connection": "CONNECTION", "timeout": "TIMEOUT", "too_long": "UNEXPECTED_ANSWER"}.get(why, "CONNECTION")
    error = HeadgateError(code, why, retryable=True)
    error.unknown = why != "connection"
    return error


def fill(full):
    """The disk under the spool takes nothing more, or something again."""
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("write", "_append"):
        own = REAL.setdefault(name, getattr(spools.Spool, name))
        setattr(spools.Spool, name, refuse if full else own)


REAL = {}


def attempt(client, items, failures, wall):
    """One request as a batcher makes it, and how its answer is judged."""
    clock = client._clock
    client._clock = Time(wall, clock.mono())
    body = body_of([encode(item) for item in items])
    submission = Submission("id", headgate.batcher.uuids.uuid7(wall), None, body, len(items))
    verdict = client.attempt(submission, lambda: None, Cancel())
    pauses = []
    for lot in (0.0, 1.0):
        client._random = lambda: lot
        pauses.append(pause(verdict, client.backoff(failures)) * 1000)
    client._clock = clock
    return {"kind": verdict.kind, "code": verdict.error and verdict.error.code, "unknown": verdict.unknown,
            "pause_ms": pauses, "items": list(verdict.items), "shrink": verdict.shrink,
            "replayed": verdict.receipt is not None and verdict.receipt.replayed}
