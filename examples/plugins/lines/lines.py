"""Writes a batch in InfluxDB's line protocol, with one request: `orders,key=a value=12.50 1700000000000`."""

import json
import math
import re

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.sink import (
    Descriptor,
    Rejection,
    Retry,
    WriteError_Reject,
    WriteError_RejectItems,
    WriteError_Retry,
)
from wit_world.imports import http
from wit_world.imports.batches import Batch, Span

ALL = Span(0, 0xFFFFFFFF)
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"url": {"type": "string"}},
    "required": ["url"],
    "additionalProperties": False,
}

config = {}


class Sink(exports.Sink):
    def describe(self) -> Descriptor:
        return Descriptor("lines", "0.1.0", json.dumps(CONFIG_SCHEMA))

    def open(self, text: str) -> None:
        config.update(json.loads(text))

    def write(self, batch: Batch) -> None:
        with batch:
            send(batch)


def escaped(text: str) -> str:
    """What stands between commas and spaces."""
    return re.sub(r"([,= ])", r"\\\1", text)


def send(batch: Batch) -> None:
    lines, rejected = [], []
    # Digits as they were sent, and whether they are a number.
    values = zip(batch.texts("value", ALL), batch.numbers("value", ALL))
    items = zip(batch.streams(ALL), batch.keys(ALL), batch.times(ALL), values)
    for index, (stream, key, time, (value, number)) in enumerate(items):
        if math.isnan(number):
            rejected.append(Rejection(index, "value is not a number"))
        else:
            lines.append(f"{escaped(stream)},key={escaped(key)} value={value} {time}\n")
    if lines:
        status = post("".join(lines)).status
        reason = f"the database answered {status}"
        if status == 429 or status >= 500:
            raise Err(WriteError_Retry(Retry(None, reason)))
        if status >= 300:
            raise Err(WriteError_Reject(reason))
    if rejected:
        raise Err(WriteError_RejectItems(rejected))


def post(text: str) -> http.Response:
    headers = [("content-type", "text/plain; charset=utf-8")]
    try:
        return http.send(http.Request("POST", config["url"], headers, text.encode(), None))
    except Err as error:
        raise Err(WriteError_Retry(Retry(None, error.value)))
