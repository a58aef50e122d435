"""Tells a chat of each item: `{"text": "Anna: 120"}`, of its fields `customer` and `total`. Waits as long as it asks."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.sink import Descriptor, Rejection, Retry, WriteError_RejectItems, WriteError_Retry
from wit_world.imports import delivery, http
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
        return Descriptor("chat", "0.1.0", json.dumps(CONFIG_SCHEMA))

    def open(self, text: str) -> None:
        config.update(json.loads(text))

    def write(self, batch: Batch) -> None:
        with batch:
            tell(batch)


def tell(batch: Batch) -> None:
    rejected = []
    for index, (customer, total) in enumerate(zip(batch.texts("customer", ALL), batch.texts("total", ALL))):
        # If a later item fails, those before it are not told again.
        delivery.taken(index)
        delivery.carries(batch, Span(index, 1))
        answer = post(json.dumps({"text": f"{customer or '?'}: {total or '?'}"}))
        if 200 <= answer.status < 300:
            continue
        reason = f"the chat answered {answer.status}"
        if answer.status == 429 or answer.status >= 500:
            wait = dict(answer.headers).get("retry-after", "")
            raise Err(WriteError_Retry(Retry(int(wait) * 1000 if wait.isdigit() else None, reason)))
        delivery.refused(Span(index, 1), reason)
        rejected.append(Rejection(index, reason))
    if rejected:
        raise Err(WriteError_RejectItems(rejected))


def post(text: str) -> http.Response:
    headers = [("content-type", "application/json")]
    try:
        return http.send(http.Request("POST", config["url"], headers, text.encode(), None))
    except Err as error:
        raise Err(WriteError_Retry(Retry(None, error.value)))
