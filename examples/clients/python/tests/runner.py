"""The runner of the conformance kit: tests/clients/README.md says what it is told."""

import datetime
import itertools
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import headgate  # noqa: E402
import simulated  # noqa: E402

S = {"last": None, "cancels": {}, "client": None, "batcher": None, "reader": None, "views": {}, "time": None}
OUT = threading.Lock()


def number(text):
    return int(text) if str(int(text)) == text else Decimal(text)


def special(members):
    value = dict(members)
    if list(value) != ["$"]:
        return value
    zone = datetime.timezone(datetime.timedelta(hours=2))
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "not_unicode": "a\ud800",
            "time": datetime.datetime(2026, 3, 1, 12, 30, tzinfo=zone)}[value["$"]]


def items(op):
    found = [json.loads(t, parse_int=number, parse_float=Decimal, object_pairs_hook=special) for t in op["items"]]
    return found[0] if op.get("one") else found


def times(op, *names):
    return {name: op[name + "_ms"] / 1000 for name in names if name + "_ms" in op}


def receipt(got):
    S["last"] = got
    return vars(got)


def options(op):
    names = ("item_key", "connector_has_item_key", "max_items", "max_bytes", "queue_bytes", "when_full", "latest_only",
             "spool", "spool_bytes")
    return {**{name: op[name] for name in names if name in op}, **times(op, "linger")}


def batcher(op):
    told = S["events"] = {"accepted": [], "rejected": [], "states": []}
    S["batcher"] = S["client"].batcher(
        on_accepted=lambda got, sent: told["accepted"].append({"items": len(sent), "replayed": got.replayed}),
        on_rejected=lambda sent, error: told["rejected"].append(
            {"items": [item.get("id") for item in sent], "code": error.code, "status": error.status}),
        on_state=lambda state, code: told["states"].append([state, code]), **options(op))
    return {}


def add(op):
    added = 0
    try:
        if op.get("concurrently"):
            with ThreadPoolExecutor(50) as pool:
                added = sum(1 for _ in pool.map(S["batcher"].add, items(op)))
        else:
            for item in items(op):
                S["batcher"].add(item)
                added += 1
    except headgate.HeadgateError as error:
        error.added = added
        raise
    return {"added": added}


def fork(op):
    child = os.fork()
    if child == 0:
        for item in items(op):
            S["batcher"].add(item)
        os._exit(0 if S["batcher"].close().done else 1)
    assert os.waitpid(child, 0)[1] == 0
    return {}


def read(op):
    kind, reader = op["op"], S["reader"]
    if kind == "reader":
        S["reader"] = headgate.Reader(op.get("url"), op.get("key"), **times(op, "backoff", "silence"))
        return {}
    if kind == "items":
        return {"items": [vars(item) for item in reader.items(op["stream"], page=op.get("page"))]}
    if kind == "item":
        item = reader.item(op["stream"], op["key"])
        return {"item": item and vars(item)}
    if kind == "follow":
        return {"messages": list(itertools.islice(reader.follow(op["streams"], op.get("since")), op["count"]))}
    if kind == "view":
        S["views"][op["stream"]] = reader.view(op["stream"])
        return {}
    view = S["views"][op["stream"]]
    if kind == "unview":
        view.close()
        return {}
    return {"items": {key: item.fields for key, item in view.items()}, "complete": view.complete, "stale": view.stale}


def do(op, cancel):
    kind, client = op["op"], S["client"]
    if kind == "client":
        S["client"] = headgate.Client(op.get("url"), op.get("key"), user_agent=op.get("user_agent"),
                                      **times(op, "timeout", "attempt_timeout", "backoff", "backoff_max"))
        return {}
    if kind == "send":
        names = {n: op[n] for n in ("item_key", "idempotency_key", "stream") if n in op}
        return receipt(client.send(items(op), cancel=cancel, **names, **times(op, "timeout")))
    if kind == "request":
        return vars(client.request(op["id"]))
    if kind == "wait":
        return vars(client.wait(op.get("id") or S["last"], **times(op, "timeout")))
    if kind == "remove":
        return receipt(client.remove(op["stream"], op["key"]))
    if S["time"] is not None and kind in ("flush", "close"):
        return getattr(S["time"], kind)(S["batcher"], op["timeout_ms"] / 1000)
    if kind in ("flush", "close"):
        return vars(getattr(S["batcher"], kind)(**times(op, "timeout")))
    if kind == "stats":
        stats = vars(S["batcher"].stats)
        return {**stats, "oldest_ms": stats["oldest"] * 1000}
    if kind == "set_key":
        client.set_key(op["key"])
        return {}
    if kind in SIMULATED:
        return SIMULATED[kind](op)
    if kind == "show":
        return {"text": repr((client, S["batcher"], S["reader"]))}
    if kind == "events":
        return S["events"]
    if kind == "cancel":
        S["cancels"][op["of"]].cancel()
        return {}
    if kind in ("reader", "items", "item", "follow", "view", "viewed", "unview"):
        return read(op)
    if kind in ("batcher", "add", "fork"):
        return {"batcher": batcher, "add": add, "fork": fork}[kind](op)
    if kind == "exit":
        return {}
    raise headgate.HeadgateError("UNKNOWN_OP", kind)


def attempt(op):
    return simulated.attempt(S["client"], items(op), op["failures"], op["wall_ms"] / 1000)


def opened(op):
    S["time"] = simulated.Time(op["wall_ms"] / 1000, op["mono_ms"] / 1000)
    S["client"], S["batcher"] = simulated.opened(S["time"], op["key"], options(op))
    return {}


def passed(op):
    S["time"].go(S["batcher"], op["ms"] / 1000)
    return {}


def jumped(op):
    S["time"].jump(op["ms"] / 1000)
    return {}


def filled(op):
    simulated.fill(op["full"])
    return {}


SIMULATED = {"attempt": attempt, "open": opened, "pass": passed, "wall": jumped, "disk": filled}


def answer(op, cancel=None):
    try:
        result = {"ok": do(op, cancel)}
    except headgate.HeadgateError as error:
        names = ("code", "status", "message", "request_id", "details", "retryable", "added")
        told = {name: getattr(error, name, None) for name in names}
        result = {"error": {**told, "text": str(error) + repr(error)}}
    except (ValueError, TypeError) as error:
        result = {"error": {"code": "USAGE", "text": repr(error)}}
    with OUT:
        print(json.dumps({"n": op["n"], **result}, default=str), flush=True)


for line in sys.stdin:
    told = json.loads(line)
    if told["op"] == "kill":
        os._exit(9)
    if "as" in told:
        cancel = S["cancels"][told["as"]] = headgate.Cancel()
        threading.Thread(target=answer, args=(told, cancel), daemon=True).start()
        continue
    answer(told)
    if told["op"] == "exit":
        break
