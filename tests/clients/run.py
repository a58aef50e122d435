"""Runs client libraries against the shared cases: README.md beside this file says how."""
import argparse, json, os, queue, re, shutil, socket, subprocess, sys, tempfile, threading, time, uuid, email.utils, glob
from concurrent.futures import ThreadPoolExecutor
import vectors
SECRET = "ik_live_kit_0123456789abcdefghijklmnop"
SECOND = "ik_live_kit_second_9876543210zyxwvutsr"
CODES = {400: "INVALID_PAYLOAD", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "STREAM_NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "PAYLOAD_TOO_LARGE", 429: "RATE_LIMITED", 500: "INTERNAL", 503: "UNAVAILABLE"}
MAX = 60

class Fail(Exception): pass

class Server:
    def __init__(self, spec):
        self.spec = spec; self.lock = threading.Condition(); self.seen = []; self.next = 0
        self.released = set(); self.flying = 0; self.most = 0; self.errors = []; self.big_whole = False
        self.accepted = []
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.url = "http://127.0.0.1:%d" % self.sock.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()
    def run(self):
        while True:
            try: c, _ = self.sock.accept()
            except OSError: return
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()
    def hold(self, name):
        with self.lock:
            if not self.lock.wait_for(lambda: name in self.released, MAX): self.errors.append("never released: " + name)
    def release(self, name):
        with self.lock: self.released.add(name); self.lock.notify_all()
    def serve(self, c):
        f = c.makefile("rb")
        try:
            while self.one(c, f): pass
        except OSError: pass
        try: c.shutdown(socket.SHUT_RDWR)
        except OSError: pass
        c.close()
    def one(self, c, f):
        line = f.readline()
        if not line: return False
        method, path, _ = line.decode("latin-1").split(" ", 2)
        headers = {}
        while True:
            h = f.readline().decode("latin-1").strip()
            if not h: break
            k, v = h.split(":", 1); headers[k.lower()] = v.strip()
        length = int(headers.get("content-length", 0)); then = self.spec.get("then")
        req = dict(method=method, path=path, headers=headers, body=None, start=time.monotonic(), end=None)
        with self.lock:
            answers = self.spec.get("answers", [])
        # before: decided without the body
        with self.lock:
            peek = answers[self.next] if self.next < len(answers) else None
            if isinstance(peek, dict) and peek.get("hang_up") == "before":
                self.next += 1; self.seen.append(req); self.lock.notify_all()
                return False
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while True:
                n = int(f.readline().split(b";")[0], 16)
                body += f.read(n); f.readline()
                if n == 0: break
        else:
            slow = next((a["slow"] for a in (peek, then) if isinstance(a, dict) and "slow" in a), None)
            body = b""
            while slow and len(body) < length:
                body += f.read(min(slow // 10, length - len(body))); time.sleep(0.1)
            body += f.read(length - len(body))
        req["body"] = body
        with self.lock:
            self.seen.append(req); self.flying += 1; self.most = max(self.most, self.flying)
            rule = next((r for r in self.spec.get("rules", []) if r["if_body_has"].encode() in body), None)
            if rule: a = rule
            elif self.next < len(answers): a = answers[self.next]; self.next += 1
            else: a = self.spec.get("then", "accept")
            self.lock.notify_all()
        try: return self.answer(c, f, req, {"accept": True} if a == "accept" else a)
        finally:
            with self.lock:
                if req["end"] is None: self.flying -= 1; req["end"] = time.monotonic()
    def land(self, req):
        with self.lock: self.flying -= 1; req["end"] = time.monotonic()
    def answer(self, c, f, req, a):
        if a.get("hold"): self.hold(a["hold"])
        if a.get("hang_up") == "after": return False
        for status in a.get("before", []): c.sendall(b"HTTP/1.1 %d Early\r\nlink: </x>\r\n\r\n" % status)
        if a.get("stall"):
            while c.recv(65536): pass
            return False
        if "events" in a: return self.events(c, req, a)
        if "big" in a:
            try:
                c.sendall(b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (a["status"], a["big"]))
                for _ in range(a["big"] // 65536): c.sendall(b" " * 65536)
                self.errors.append("the big answer was taken whole")
            except OSError: pass
            return False
        rid = str(uuid.uuid4())
        status = a.get("status", 202); kind = "application/json"
        extra = {"x-request-id": rid}
        if "text" in a: body = a["text"]; kind = "text/html"
        elif "json" in a: body = json.dumps(a["json"])
        elif status == 202:
            try: b = json.loads(req["body"] or b"{}"); n = len(b) if isinstance(b, list) else 1
            except ValueError: n = -1; b = None
            if isinstance(b, list) and not a.get("replayed"): self.accepted.extend(x.get("id") for x in b)
            data = {"stream": "orders", "items_received": n, "request_id": rid}
            body = {"success": True, "data": data}
            if a.get("unknown"): data["new"] = {"a": [1]}; body["more"] = None
            body = json.dumps(body)
            extra["location"] = "/api/requests/" + rid
            if a.get("replayed"): extra["idempotent-replayed"] = "true"
        else:
            e = {"code": a.get("code", CODES.get(status, "X")), "message": a.get("message", "as told"), "request_id": rid}
            if "details" in a: e["details"] = a["details"]
            body = json.dumps({"success": False, "error": e})
        for k, v in a.get("headers", {}).items():
            if v.startswith("$date+"): v = email.utils.formatdate(time.time() + int(v[6:]), usegmt=True)
            extra[k] = v
        body = body.encode()
        head = "HTTP/1.1 %d As Told\r\ncontent-type: %s\r\ncontent-length: %d\r\n%s\r\n" % (status, kind, len(body), "".join("%s: %s\r\n" % kv for kv in extra.items()))
        raw = head.encode() + body
        if a.get("hang_up") == "middle":
            c.sendall(raw[: len(raw) - len(body) // 2 - 1]); return False
        self.land(req)
        c.sendall(raw)
        return not a.get("close")
    def events(self, c, req, a):
        self.land(req)
        c.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\ntransfer-encoding: chunked\r\n\r\n")
        for e in a["events"]:
            if isinstance(e, dict):
                if "hold" in e: self.hold(e["hold"])
                if e.get("hang_up"): return False
                continue
            raw = e.encode(); n = a.get("split", len(raw))
            for i in range(0, len(raw), n):
                piece = raw[i:i + n]
                c.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                if n < len(raw): time.sleep(0.0005)
        while c.recv(65536): pass
        return False

def matches(want, got, at="$"):
    if isinstance(want, dict) and want and next(iter(want)).startswith("$"):
        rule, v = next(iter(want.items()))
        if rule == "$any":
            for x in v:
                try: return matches(x, got, at)
                except Fail: pass
            raise Fail(f"{at}: {got!r} is none of {v!r}")
        ok = {"$has": lambda: isinstance(got, str) and v in got, "$min": lambda: got is not None and got >= v, "$max": lambda: got is not None and got <= v,
              "$sorted_has": lambda: all(x in got for x in v)}
        if rule == "$some":
            for x in got or []:
                try: return matches(v, x, at)
                except Fail: pass
            raise Fail(f"{at}: none of {repr(got)[:300]} is {v!r}")
        if rule == "$not":
            try: matches(v, got, at)
            except Fail: return
            raise Fail(f"{at}: {got!r} is {v!r}")
        if not ok[rule](): raise Fail(f"{at}: {got!r}, not {rule} {v!r}")
    elif isinstance(want, dict):
        if not isinstance(got, dict): raise Fail(f"{at}: {got!r}, not an object")
        for k, v in want.items(): matches(v, got.get(k), f"{at}.{k}")
    elif isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want): raise Fail(f"{at}: {got!r}, not {want!r}")
        for i, (w, g) in enumerate(zip(want, got)): matches(w, g, f"{at}[{i}]")
    elif want is None:
        if got is not None: raise Fail(f"{at}: {got!r}, not nothing")
    elif want != got or isinstance(want, bool) != isinstance(got, bool): raise Fail(f"{at}: {got!r}, not {want!r}")

def expand(items):
    out = []
    for x in items:
        if isinstance(x, str): out.append(x)
        elif "bytes" in x:
            h = '{"id":%d,"x":"' % x["id"]; out.append(h + "a" * (x["bytes"] - len(h) - 2) + '"}')
        else: out += ['{"id":%d}' % i for i in range(x["from"], x["to"])]
    return out

def fill(v, names):
    if isinstance(v, str):
        for k, w in names.items(): v = v.replace(k, w)
        return v
    if isinstance(v, list): return [fill(x, names) for x in v]
    if isinstance(v, dict): return {k: fill(x, names) for k, x in v.items()}
    return v

class Runner:
    def __init__(self, command, env, verbose):
        e = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}; e.update(env)
        self.err = tempfile.TemporaryFile()
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, env=e)
        self.out = []; self.cond = threading.Condition(); self.results = {}; self.n = 0; self.v = verbose; self.ended = False
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
    def read(self):
        for line in self.p.stdout:
            line = line.decode()
            if self.v: print("  <", line.strip()[:300])
            with self.cond:
                self.out.append(line)
                try:
                    r = json.loads(line); self.lines.put(r)
                    if "n" in r: self.results[r["n"]] = r
                except Exception as e: self.results["bad"] = line
                self.cond.notify_all()
        self.lines.put(None)
        with self.cond: self.ended = True; self.cond.notify_all()
    def tell(self, op):
        n = self.n; self.n += 1
        self.say(dict(n=n, **op))
        return n
    def say(self, told):
        line = json.dumps(told)
        if self.v: print("  >", line[:300])
        self.p.stdin.write(line.encode() + b"\n"); self.p.stdin.flush()
    def line(self):
        """The next line that it writes."""
        try: found = self.lines.get(timeout=MAX)
        except queue.Empty: raise Fail("no line")
        if found is None: raise Fail("it ended: " + self.stderr())
        return found
    def do(self, op):
        r = self.hear(self.tell(op))
        if "ok" not in r: raise Fail(f"{op['op']}: {r}")
        return r["ok"]
    def hear(self, n, most=MAX):
        with self.cond:
            if not self.cond.wait_for(lambda: n in self.results or self.ended, most): raise Fail("no answer to %d" % n)
            if n not in self.results: raise Fail("it ended: " + self.stderr())
            r = dict(self.results[n]); r.pop("n"); return r
    def stderr(self):
        self.err.seek(0); return self.err.read().decode(errors="replace")
    def stop(self):
        if self.p.poll() is None: self.p.kill()
        self.p.wait()

def compact(text):
    return re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda m: m.group(1) or "", text)

def dead_url():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); return s, "http://127.0.0.1:%d" % s.getsockname()[1]

def spooled(folder):
    out = []
    for path in sorted(glob.glob(folder + "/*.json")):
        head, body = open(path).read().split("\n")[:2]
        head = json.loads(head); json.loads(body)
        assert head["v"] == 1 and set(head) - {"stream"} == {"v", "idempotency_key", "item_key", "created"}, head
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json", os.path.basename(path)), path
        out.append(head["idempotency_key"])
    return out

def owner(kind):
    """What stands in `.owner` of a folder that another program has, or had."""
    boot = open("/proc/sys/kernel/random/boot_id").read().strip() if os.path.exists("/proc/sys/kernel/random/boot_id") else None
    told = {"host": socket.gethostname(), "boot": boot, "pid": os.getpid(), "started": None, "lock": False, "id": str(uuid.uuid4())}
    if kind == "dead":
        child = subprocess.Popen([sys.executable, "-c", ""]); child.wait(); told["pid"] = child.pid; told["started"] = "1"
    if kind == "elsewhere": told.update(host="elsewhere.invalid", boot=str(uuid.uuid4()))
    return json.dumps(told)

def refused_ids(folder):
    """The ids in each file of `rejected`, in order of names."""
    return [[item["id"] for line in open(path) for item in json.loads(line)["items"]] for path in sorted(glob.glob(folder + "/rejected/*.json"))]

def marked(folder):
    """Whether the batch that is left in the folder may have been taken."""
    try: told = json.load(open(folder + "/.state"))
    except ValueError: return False
    return any(told["batch"] in path for path in glob.glob(folder + "/*.json")) and told["tried"] is not None

def run_case(case, command, verbose):
    server = Server(case["server"]); hold, dead = dead_url()
    folder = tempfile.mkdtemp(prefix="kit-")
    for name, text in case.get("spool", {}).items(): open(folder + "/" + name, "w").write(owner(text[7:]) if text.startswith("$owner_") else text)
    names = {"$url": server.url, "$dead": dead, "$key2": SECOND, "$key": SECRET, "$folder": folder}
    env = fill(case.get("env", {}), names)
    runners = [Runner(command, env, verbose)]; named = {}; spool_keys = []; exit_at = 0
    try:
        for number, step in enumerate(case["steps"]):
            step = dict(step); r = runners[step.pop("runner", -1)]
            expect = step.pop("expect", {"ok": {}}); eventually = step.pop("eventually", False)
            where = f"step {number} {json.dumps(step)[:120]}"
            try:
                if "op" in step:
                    step = fill(step, names)
                    if "items" in step and isinstance(step["items"], list): step["items"] = expand(step["items"])
                    if step["op"] == "kill": r.tell(step); continue
                    if "as" in step: named[step["as"]] = r.tell(step); continue
                    end = time.monotonic() + MAX
                    while True:
                        got = r.hear(r.tell(step))
                        try: matches(expect, got); break
                        except Fail:
                            if not eventually or time.monotonic() > end: raise
                            time.sleep(0.01)
                    if step["op"] == "exit": exit_at = time.monotonic()
                elif step["kit"] == "await": matches(expect, r.hear(named[step["of"]]))
                elif step["kit"] == "requests":
                    with server.lock:
                        if not server.lock.wait_for(lambda: len(server.seen) >= step["count"], MAX): raise Fail("only %d requests" % len(server.seen))
                elif step["kit"] == "release": server.release(step["hold"])
                elif step["kit"] == "quiet":
                    before = len(server.seen); time.sleep(step["ms"] / 1000)
                    if len(server.seen) != before: raise Fail("a request came")
                elif step["kit"] == "exits":
                    try: code = r.p.wait(step["within_ms"] / 1000)
                    except subprocess.TimeoutExpired: raise Fail("still there")
                    if code: raise Fail("exit code %s: %s" % (code, r.stderr()))
                    if (time.monotonic() - exit_at) * 1000 < step.get("after_ms", 0): raise Fail("ended too early")
                elif step["kit"] == "killed": r.p.wait(MAX)
                elif step["kit"] == "start": runners.append(Runner(command, env, verbose))
                elif step["kit"] == "spool":
                    end = time.monotonic() + MAX
                    while len(glob.glob(folder + "/*.json")) != step["files"]:
                        if time.monotonic() > end: raise Fail("files: %s" % os.listdir(folder))
                        time.sleep(0.01)
                    spool_keys = spool_keys or spooled(folder)
                    names_left = sorted(x for x in os.listdir(folder) if not x.startswith("."))
                    if "names" in step: matches(step["names"], names_left)
                    if "rejected" in step: matches(step["rejected"], refused_ids(folder))
                elif step["kit"] == "state":
                    end = time.monotonic() + MAX
                    while marked(folder) != step["tried"]:
                        if time.monotonic() > end: raise Fail("the state: %s" % open(folder + "/.state").read().strip())
                        time.sleep(0.01)
                elif step["kit"] == "folder": os.rename(*(folder, folder + ".away") if step["away"] else (folder + ".away", folder))
                else: raise Fail("unknown step")
            except Fail as e: raise Fail(f"{where}: {e}")
        check(case, server, spool_keys)
        for r in runners:
            said = "".join(r.out) + r.stderr()
            if SECRET in said or SECOND in said: raise Fail("the key was printed: " + said[:3000])
            if "bad" in r.results: raise Fail("not JSON: " + r.results["bad"])
    except Fail as e:
        return f"{e}\n    requests: {[(x['method'], x['path'], (x['body'] or b'')[:80], x['headers'].get('idempotency-key')) for x in server.seen][:12]}\n    stderr: {runners[-1].stderr()[-1500:]}"
    finally:
        for r in runners: r.stop()
        server.sock.close()
        for left in (folder, folder + ".away"): shutil.rmtree(left, ignore_errors=True)

def check(case, server, spool_keys):
    with server.lock: seen = list(server.seen)
    if server.errors: raise Fail("; ".join(server.errors))
    for i, s in enumerate(seen):
        h = s["headers"]; where = f"request {i}: "
        second = i < len(case.get("requests") or []) and case["requests"][i].get("second_key")
        if h.get("authorization") != "Bearer " + (SECOND if second else SECRET): raise Fail(where + "no key, or another one")
        if SECRET in s["path"] or SECRET.encode() in (s["body"] or b"") or any(SECRET in v for k, v in h.items() if k != "authorization"): raise Fail(where + "the key is somewhere else")
        if s["method"] == "POST" and h.get("content-type", "").split(";")[0] != "application/json": raise Fail(where + "content type")
        if s["method"] in ("POST", "DELETE") and not re.fullmatch(r"[!-~]{1,255}", h.get("idempotency-key", "")): raise Fail(where + "idempotency key")
        if not h.get("user-agent", "").startswith("headgate-"): raise Fail(where + "user agent")
    if server.most > case.get("max_in_flight", 1 << 30): raise Fail("%d in flight" % server.most)
    if "each_once" in case and sorted(server.accepted) != list(range(case["each_once"])): raise Fail("not each once: %d" % len(server.accepted))
    want = case.get("requests")
    if want is None: return
    if len(seen) != len(want) and not (case.get("more") and len(seen) > len(want)): raise Fail(f"{len(seen)} requests, not {len(want)}")
    letters = {}
    for i, (w, s) in enumerate(zip(want, seen)):
        where = f"request {i}"; body = s["body"] or b""
        matches(w.get("headers", {}), s["headers"], where)
        for k in ("method", "path"):
            if k in w: matches(w[k], s[k], where)
        if "body" in w:
            got = json.loads(body); matches(w["body"], got, where + " body")
            if isinstance(w["body"], dict) and set(w["body"]) != set(got): raise Fail(where + f": {got}")
        if "body_text" in w and compact(body.decode()) != w["body_text"]: raise Fail(f"{where}: {body.decode()}")
        if "body_bytes" in w and len(body) != w["body_bytes"]: raise Fail(f"{where}: {len(body)} bytes")
        if "items" in w and len(json.loads(body)) != w["items"]: raise Fail(f"{where}: {len(json.loads(body))} items")
        if "ids" in w: matches(w["ids"], [x.get("id") for x in json.loads(body)], where + " ids")
        if "key" in w:
            key = s["headers"].get("idempotency-key")
            if letters.setdefault(w["key"], key) != key: raise Fail(f"{where}: another idempotency key than {w['key']}")
            if len(set(letters.values())) != len(letters): raise Fail(f"{where}: the idempotency key of another")
        if "after_ms" in w and (s["start"] - seen[i - 1]["end"]) * 1000 < w["after_ms"] - 1: raise Fail(f"{where}: after {(s['start'] - seen[i - 1]['end']) * 1000} ms")
    if case.get("spooled_keys") and [s["headers"]["idempotency-key"] for s in seen][: len(spool_keys)] != spool_keys: raise Fail("not the keys of the spool")

def judged(command, verbose):
    """All verdicts, with one runner."""
    found = vectors.vectors()
    runner = Runner(command, {}, verbose)
    try:
        for case in found["verdicts"]:
            try: vectors.verdict(runner, case, found["wall"], SECRET); why = None
            except (AssertionError, Fail) as e: why = str(e)
            yield "verdict: " + case["name"], why
    finally: runner.stop()

def scripted(command, verbose, case):
    return vectors.script(lambda: Runner(command, {}, verbose), case, vectors.vectors()["wall"])

def main():
    p = argparse.ArgumentParser(); p.add_argument("-k", default=""); p.add_argument("-j", type=int, default=4); p.add_argument("-v", action="store_true"); p.add_argument("--language", required=True)
    p.add_argument("--only", choices=("cases", "verdicts", "scripts"), action="append")
    p.add_argument("command", nargs="+")
    a = p.parse_args(); only = a.only or ["cases", "verdicts", "scripts"]
    cases = [c for c in json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.json"))) if a.k in c["name"] and a.language in c.get("only", [a.language]) and a.language not in c.get("without", [])]
    jobs = [(c["name"], lambda c=c: run_case(c, a.command, a.v)) for c in cases if "cases" in only]
    jobs += [("script: " + c["name"], lambda c=c: scripted(a.command, a.v, c)) for c in vectors.vectors()["scripts"] if "scripts" in only and a.k in c["name"]]
    bad = good = 0; began = time.monotonic()
    def one(job):
        try: return job[1]()
        except Exception as e:
            import traceback; return traceback.format_exc()
    def all_of_them(pool):
        for job, why in zip(jobs, pool.map(one, jobs)): yield job[0], why
        if "verdicts" in only:
            for name, why in judged(a.command, a.v):
                if a.k in name: yield name, why
    with ThreadPoolExecutor(1 if a.v else a.j) as pool:
        for name, why in all_of_them(pool):
            print("FAIL" if why else "PASS", name, flush=True)
            if why: bad += 1; print("   ", why)
            else: good += 1
    print(f"{good} of {good + bad} passed in {time.monotonic() - began:.1f} s")
    sys.exit(bool(bad))
if __name__ == "__main__":
    main()
