"""Verdicts and scripts of vectors.json, for a runner: README.md beside this file says what both are.

Verdicts go over real connections. Scripts run in virtual time: the kit is the clock and Headgate, the files are real, and
a crash is a real one (`kill -9`).

**Invariant**: what is expected is in vectors.json alone; nothing here knows a case by its name.
"""

import glob
import json
import os
import shutil
import socket
import tempfile
import threading

PLACE = os.path.dirname(os.path.abspath(__file__))
KEPT_SECONDS = 24 * 3600
REQUEST_ID = "01a20d32-083b-7226-aeab-30f182351bd9"
MONO_BEGIN = 1000.0


def vectors():
    with open(os.path.join(PLACE, "vectors.json"), encoding="utf-8") as file:
        return json.load(file)


def differs(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {json.dumps(got)}\n    expected: {json.dumps(want)}")


# Verdicts


class OneAnswer:
    """A server that answers each request in the same way."""

    def __init__(self, answer):
        self.answer = answer
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        if answer.get("no") != "connection":  # a port that is bound is nobody else's, and refuses
            self.socket.listen()
            threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as file:
            try:
                while self.one(connection, file):
                    pass
            except OSError:
                pass

    def one(self, connection, file):
        length = 0
        while line := file.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        file.read(length)
        why = self.answer.get("no")
        if why == "lost":
            return False
        if why == "timeout":
            return bool(file.read(1))
        whole = raw({"status": 202, "headers": [], "body": "x" * 2_000_000} if why == "too_long" else
                    {"status": 202, "headers": [["Content-Type", "application/json"]], "body": "{}" * 40} if why else self.answer)
        connection.sendall(whole[:-20] if why == "truncated" else whole)
        return why is None

    def close(self):
        self.socket.close()


def raw(answer):
    """An answer as bytes, with the headers that it has and no others but its length."""
    body = answer["body"]
    body = (body["repeat"] * body["times"] if isinstance(body, dict) else body).encode()
    headers = list(answer["headers"])
    if answer["status"] != 204:
        headers.append(["Content-Length", str(len(body))])
    lines = ["HTTP/1.1 %d As Told" % answer["status"]] + ["%s: %s" % (name, value) for name, value in headers]
    return "\r\n".join(lines + ["", ""]).encode() + body


def verdict(runner, case, wall, key):
    answer, want = case["answer"], case["expect"]
    server = OneAnswer(answer)
    try:
        # Half a second for what never comes; what does come has a bound that only a hang reaches.
        within = 500 if answer.get("no") == "timeout" else 60_000
        runner.do({"op": "client", "url": server.url, "key": key, "attempt_timeout_ms": within})
        items = ['{"id": %d}' % each for each in range(case["sent"])]
        got = runner.do({"op": "attempt", "items": items, "failures": case["failures"], "wall_ms": wall * 1000})
    finally:
        server.close()
    shortest, longest = (round(each) for each in got["pause_ms"])
    found = {name: got.get(name) or None for name in ("kind", "code", "unknown", "items", "replayed", "shrink")}
    found["pause"] = [shortest, longest]
    told = {name: want.get(name) or None for name in ("kind", "code", "unknown", "items", "replayed", "shrink")}
    told["pause"] = [round(each * 1000) for each in want["pause"]]
    differs("judged", found, told)


# Scripts


class Headgate:
    """Answers as a script says, and else as Headgate does."""

    def __init__(self):
        self.next, self.then = [], "accept"
        self.bad, self.named, self.limit = set(), True, None
        self.claims, self.taken = {}, []

    def answer(self, ask, now):
        told = self.next.pop(0) if self.next else self.then
        told = {} if told == "accept" else told
        ids = [item["id"] for item in json.loads(ask["body"])]
        if told.get("taken"):
            self.take(ask["key"], ids, now)
        if "no" in told:
            answer = {"no": told["no"]}
        elif "html" in told:
            answer = {"status": told["html"], "headers": [["Content-Type", "text/html"]], "body": "<html><h1>%d" % told["html"]}
        elif "error" in told:
            answer = refusal(*told["error"], told.get("more", {}))
        elif "count" in told:
            answer = receipt(told["count"], False)
        else:
            answer = self.word(ask["key"], ids, now)
        answer.setdefault("headers", [])
        answer["headers"] = answer["headers"] + told.get("headers", [])
        if "set_key" in told:
            answer["set_key"] = told["set_key"]
        return answer, bool(told.get("crash"))

    def word(self, key, ids, now):
        """Headgate's own."""
        if self.limit is not None and len(ids) > self.limit:
            return refusal(413, "PAYLOAD_TOO_LARGE", {})
        wrong = [{"item": index, "field": "id"} for index, each in enumerate(ids) if each in self.bad]
        if wrong:
            return refusal(400, "INVALID_PAYLOAD", {"details": wrong} if self.named else {})
        return receipt(*self.take(key, ids, now))

    def take(self, key, ids, now):
        if key in self.claims and now - self.claims[key][0] < KEPT_SECONDS:
            return self.claims[key][1], True
        self.claims[key] = (now, len(ids))
        self.taken.extend(ids)
        return len(ids), False


def receipt(count, replayed):
    data = {"stream": "orders", "items_received": count, "request_id": REQUEST_ID}
    headers = [["Content-Type", "application/json"]] + ([["Idempotent-Replayed", "true"]] if replayed else [])
    return {"status": 202, "headers": headers, "body": json.dumps({"success": True, "data": data})}


def refusal(status, code, more):
    error = {"code": code, "message": "as told", "request_id": REQUEST_ID, **more}
    return {"status": status, "headers": [["Content-Type", "application/json"]],
            "body": json.dumps({"success": False, "error": error})}


def is_about(got, want):
    """Whether a number of attempts over hours is the expected one, but for how its first and last pauses fall."""
    return want * 0.9 <= got <= want * 1.1


class Script:
    """One script, with a runner that is started again after each crash."""

    def __init__(self, start, wall):
        self.start, self.wall, self.mono = start, float(wall), MONO_BEGIN
        self.headgate, self.folder = Headgate(), tempfile.mkdtemp(prefix="kit-")
        self.runner, self.options, self.key = None, {}, "K"
        self.requests, self.letters, self.before = [], {}, None
        self.callbacks, self.said, self.state = [], set(), ["ok", None]
        self.retries, self.now, self.closed = 0, {}, None

    def op(self, op):
        """Tells the runner something, and answers what it asks; its result, None: it was killed."""
        number = self.runner.tell(op)
        while True:
            line = self.runner.line()
            if "ask" in line:
                answer = self.asked(line["ask"])
                if answer is None:
                    return self.crash()
                self.runner.say({"answer": answer})
            elif "event" in line:
                self.event(*line["event"])
            elif line.get("n") == number:
                return line
            else:
                raise AssertionError(f"not expected: {line}")

    def asked(self, ask):
        at = ask["at_ms"] / 1000
        request = {"key": self.letter(ask["key"]), "ids": [item["id"] for item in json.loads(ask["body"])]}
        if ask["auth"] != "K":
            request["auth"] = ask["auth"]
        self.requests.append((request, None if self.before is None else at - self.before))
        answer, crash = self.headgate.answer(ask, at)
        self.before = at
        if not crash:
            return answer
        request["then"] = "crash"
        self.pass_to(at)
        return None

    def letter(self, key):
        whole, slash, part = key.partition("/")
        return self.letters.setdefault(whole, chr(ord("A") + len(self.letters))) + slash + part

    def event(self, kind, *told):
        if kind == "accepted":
            self.callbacks.append(["on_accepted", *told])
        elif kind == "rejected":
            self.callbacks.append(["on_rejected", *told])
        elif told[1] != "SPOOL":
            self.became(*told)

    def became(self, state, code):
        """Of `on_state` only what is new: a block once for each code, one warning, one recovery."""
        if [state, code] == self.state:
            raise AssertionError(f"on_state says {state} {code} twice")
        if state == "blocked" and code not in self.said:
            self.callbacks.append(["on_blocked", code])
            self.said.add(code)
        if state == "ok":
            self.callbacks.append(["recovered"])
            self.said.clear()
        elif self.state[0] == "ok":
            self.callbacks.append(["warning", code])
        self.state = [state, code]

    def pass_to(self, mono):
        self.wall, self.mono = self.wall + mono - self.mono, mono

    def crash(self):
        self.retries += self.now.get("retries", 0)
        self.runner.stop()
        self.runner, self.now, self.state = None, {}, ["ok", None]
        self.said.clear()

    def step(self, kind, *told):
        getattr(self, "do_" + kind)(*told)
        if self.runner is not None and self.closed is None:
            self.now = self.op({"op": "stats"})["ok"]

    def ok(self, op):
        line = self.op(op)
        if line is not None and "ok" not in line:
            raise AssertionError(f"{op}: {line}")
        return None if line is None else line["ok"]

    def do_open(self, options):
        self.options = options or self.options
        names = {name: value for name, value in self.options.items() if name not in ("linger", "spool")}
        if "linger" in self.options:
            names["linger_ms"] = self.options["linger"] * 1000
        if self.options.get("spool", True):
            names["spool"] = self.folder
        self.runner = self.start()
        self.ok({"op": "open", "wall_ms": self.wall * 1000, "mono_ms": self.mono * 1000, "key": self.key,
                 "item_key": "id", "when_full": "fail", **names})

    def do_add(self, first, count, size=None):
        more = "" if size is None else ', "x": "%s"' % ("x" * size)
        line = self.op({"op": "add", "items": ['{"id": %d%s}' % (each, more) for each in range(first, first + count)]})
        if line is not None and "error" in line:
            self.callbacks.append(["add fails", line["error"]["code"], first + line["error"]["added"]])

    def do_server(self, answers):
        self.headgate.next = list(answers)

    def do_then(self, answer):
        self.headgate.then = answer

    def do_bad(self, ids, named=True):
        self.headgate.bad, self.headgate.named = set(ids), named

    def do_limit(self, count):
        self.headgate.limit = count

    def do_pass(self, seconds):
        end = self.mono + seconds
        if self.runner is not None:
            self.ok({"op": "pass", "ms": seconds * 1000})
        self.pass_to(end)

    def do_clock(self, seconds):
        self.wall += seconds
        if self.runner is not None:
            self.ok({"op": "wall", "ms": seconds * 1000})

    def do_crash(self):
        self.crash()

    def do_set_key(self, key):
        self.ok({"op": "set_key", "key": key})

    def do_flush(self, seconds):
        self.ok({"op": "flush", "timeout_ms": seconds * 1000})

    def do_close(self, seconds):
        self.closed = {"left": self.ok({"op": "close", "timeout_ms": seconds * 1000})["spooled"]}
        self.now = self.op({"op": "stats"})["ok"]

    def do_disk(self, how):
        if self.runner is not None:
            self.ok({"op": "disk", "full": how == "full"})

    def do_file(self, number, text):
        key = "018e0000-0000-7000-8000-%012d" % number
        with open(os.path.join(self.folder, key + ".json"), "w", encoding="utf-8") as file:
            file.write(text.replace("$key", key))

    def files(self):
        return sorted(glob.glob(self.folder + "/*.json"))

    def do_damage(self, index, how):
        path = self.files()[index]
        with open(path, "rb") as file:
            text = file.read()
        damaged = {"cut": text[: len(text) // 2], "zeros": bytes(len(text)), "one line": text.split(b"\n")[0] + b"\n",
                   "other": b"hello\nworld\n"}[how]
        with open(path, "wb") as file:
            file.write(damaged)

    def do_remove(self, index):
        os.remove(self.files()[index])

    def rejected(self):
        found = []
        for path in sorted(glob.glob(self.folder + "/rejected/*.json")):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    told = json.loads(line)
                    found.append({"code": told["error"]["code"], "key": self.letter(told["idempotency_key"]),
                                  "ids": [item["id"] for item in told["items"]]})
        return found

    def check(self, want):
        self.check_requests(want["requests"])
        differs("taken", self.headgate.taken, want["taken"])
        differs("batches left", len(self.files()), want["batches_left"])
        differs("rejected", self.rejected(), want["rejected"])
        damaged = glob.glob(self.folder + "/*.damaged")
        differs("damaged", [len(damaged), self.now.get("damaged", 0)], [want["damaged"]] * 2)
        # What is set aside is in `damaged` of `stats`, and no callback.
        differs("callbacks", self.callbacks, [each for each in want["callbacks"] if each != ["damaged"]])
        differs("close", self.closed, want.get("close"))
        retries = self.retries + self.now.get("retries", 0)
        if len(self.requests) <= 60:
            differs("retries", retries, want["on_retry"])
        elif not is_about(retries, want["on_retry"]):
            raise AssertionError(f"{retries} retries, not about {want['on_retry']}")
        if "state" in want:
            state = self.now["state"] + (" " + self.now["code"] if self.now["state"] == "blocked" else "")
            differs("state", state, want["state"])

    def check_requests(self, want):
        if isinstance(want, dict):
            if not is_about(len(self.requests), want["count"]):
                raise AssertionError(f"{len(self.requests)} requests, not about {want['count']}")
            return
        bare = [{name: value for name, value in each.items() if name != "after"} for each in want]
        differs("requests", [request for request, _ in self.requests], bare)
        for number, (each, (_, after)) in enumerate(zip(want, self.requests)):
            if "after" in each and not each["after"][0] - 0.001 <= after <= each["after"][1] + 0.001:
                raise AssertionError(f"request {number}: after {after} s, not {each['after']}")


def script(start, case, wall):
    run = Script(start, wall)
    try:
        for number, step in enumerate(case["steps"]):
            try:
                run.step(*step)
            except Exception as error:
                raise AssertionError(f"step {number} {json.dumps(step)[:100]}: {error}") from error
        run.check(case["expect"])
    except AssertionError as error:
        requests = [dict(request, after=after) for request, after in run.requests][:8]
        said = "" if run.runner is None else run.runner.stderr()[-1500:]
        return f"{error}\n    requests: {requests}\n    stderr: {said}"
    finally:
        if run.runner is not None:
            run.runner.stop()
        shutil.rmtree(run.folder, ignore_errors=True)
    return None
