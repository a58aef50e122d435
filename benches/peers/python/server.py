"""A peer of the bench: what one would write in Python, with FastAPI, uvicorn and sqlite3, instead of running Headgate.

It looks up the key, parses, flattens, and answers 202 when the request's log entry and its items are in SQLite and
flushed. Requests that arrive while a commit runs are committed together by the next, on a thread of its own, so that
they share one fsync, as Headgate's do. It has no idempotency, no rates, no sinks, no pushing, no order of late retries,
and numbers pass through doubles.
"""

import asyncio
import hashlib
import json
import os
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

BODY_BYTES_MAX = 1_048_576

LOG = """INSERT INTO requests
    (seq, request_id, received_ms, stream, status, http_status, items, bytes, key, client, item_key)
    VALUES (?, ?, ?, ?, 'processed', 202, ?, ?, ?, ?, ?)"""
UPSERT = """INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, seq = excluded.seq,
    updated_at = excluded.updated_at, request_id = excluded.request_id"""


class Refused(Exception):
    def __init__(self, status, code, message):
        self.status, self.code, self.message = status, code, message


class Store:
    """Commits what waits as one group, on a thread of its own."""

    def __init__(self, folder):
        self.db = sqlite3.connect(Path(folder, "data.db"), isolation_level=None, check_same_thread=False)
        self.db.executescript(Path(__file__).parent.parent.joinpath("schema.sql").read_text())
        (self.seq,) = self.db.execute("SELECT coalesce(max(seq), 0) FROM requests").fetchone()
        self.waiting, self.wake = [], asyncio.Event()
        self.thread = ThreadPoolExecutor(max_workers=1)

    async def submit(self, entry):
        done = asyncio.get_running_loop().create_future()
        self.waiting.append((entry, done))
        self.wake.set()
        await done

    async def write(self):
        loop = asyncio.get_running_loop()
        while True:
            await self.wake.wait()
            self.wake.clear()
            group, self.waiting = self.waiting, []
            try:
                await loop.run_in_executor(self.thread, self.commit, [entry for entry, _ in group])
            except sqlite3.Error as error:
                print(error, file=sys.stderr)
                for _, done in group:
                    done.set_exception(Refused(503, "UNAVAILABLE", "failed to store the request"))
                continue
            for _, done in group:
                if not done.cancelled():
                    done.set_result(None)

    def commit(self, group):
        self.db.execute("BEGIN IMMEDIATE")
        try:
            for request_id, now, (stream, prefix), items, size, client, item_key in group:
                self.seq += 1
                seq = self.seq
                self.db.execute(LOG, (seq, request_id, now, stream, len(items), size, prefix, client, item_key))
                rows = ((stream, key, fields, seq, now, now, request_id) for key, fields in items)
                self.db.executemany(UPSERT, rows)
            self.db.execute("COMMIT")
        except BaseException:
            self.db.execute("ROLLBACK")
            raise


def invalid(message):
    return Refused(400, "INVALID_PAYLOAD", message)


def flatten(value, prefix, flat):
    for key, value in value.items():
        name = prefix + key
        if isinstance(value, dict) and value:
            flatten(value, name + ".", flat)
        elif name in flat:
            raise invalid(f'the field "{name}" is there twice')
        else:
            flat[name] = value
    return flat


def items_of(body, item_key):
    """Pairs of key and fields as JSON."""
    items = []
    for position, value in enumerate(body if isinstance(body, list) else [body]):
        if not isinstance(value, dict):
            raise invalid(f"item {position} is not an object")
        flat = flatten(value, "", {})
        key = position if item_key is None else flat.get(item_key)
        if not isinstance(key, (str, int, float)) or key == "":
            raise invalid(f'item {position} has no field "{item_key}", which X-Item-Key names')
        text = json.dumps(key) if isinstance(key, bool) else str(key)
        items.append((text, json.dumps(flat, ensure_ascii=False, separators=(",", ":"))))
    return items


def request_id(now):
    """UUIDv7 (RFC 9562)."""
    value = bytearray(now.to_bytes(6, "big") + os.urandom(10))
    value[6] = value[6] & 0x0F | 0x70
    value[8] = value[8] & 0x3F | 0x80
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def digest(key):
    return hashlib.sha256(key.encode()).digest()


def make_app(folder, pairs):
    # Digest of a key -> its stream, and how it is named in the log.
    keys = {digest(key): (stream, key[:16]) for key, stream in (pair.split("=") for pair in pairs)}

    @asynccontextmanager
    async def lifespan(app):
        app.state.store = Store(folder)
        writer = asyncio.create_task(app.state.store.write())
        yield
        writer.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.exception_handler(Refused)
    async def refuse(request, error):
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
        content = {"success": False, "error": {"code": error.code, "message": error.message}}
        return JSONResponse(content, error.status, headers)

    @app.post("/api/ingest", status_code=202)
    async def ingest(request: Request):
        given = request.headers.get("authorization", "")
        key = keys.get(digest(given[7:])) if given.startswith("Bearer ") else None
        if key is None:
            raise Refused(401, "UNAUTHORIZED", "send an ingest key")
        size = int(request.headers.get("content-length", 0))
        if size > BODY_BYTES_MAX:
            raise Refused(413, "PAYLOAD_TOO_LARGE", "send less in one request")
        try:
            body = await request.json()
        except ValueError as error:
            raise invalid(str(error)) from error
        item_key = request.headers.get("x-item-key")
        items = items_of(body, item_key)
        now = time.time_ns() // 1_000_000
        name = request_id(now)
        await app.state.store.submit((name, now, key, items, size, request.client.host, item_key))
        data = {"stream": key[0], "items_received": len(items), "request_id": name}
        return JSONResponse({"success": True, "data": data}, 202, {"X-Request-Id": name})

    return app


if __name__ == "__main__":
    port, folder, *pairs = sys.argv[1:]
    # One process: SQLite has one writer.
    uvicorn.run(make_app(folder, pairs), host="127.0.0.1", port=int(port), log_level="warning", access_log=False)
