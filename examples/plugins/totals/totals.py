"""Adds `amount` up for each key, and keeps the totals as items of a stream of its own, `totals`."""

import json
import math

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.sink import Descriptor, Rejection, WriteError_RejectItems
from wit_world.imports import pool, renderers, state
from wit_world.imports.batches import Batch, Span, make

ALL = Span(0, 0xFFFFFFFF)


class Sink(exports.Sink):
    def describe(self) -> Descriptor:
        return Descriptor("totals", "0.1.0", "")

    def open(self, text: str) -> None:
        pass

    def write(self, batch: Batch) -> None:
        with batch:
            add(batch)


def add(batch: Batch) -> None:
    lines, rejected = [], []
    for index, (key, amount) in enumerate(zip(batch.keys(ALL), batch.numbers("amount", ALL))):
        if math.isnan(amount):
            rejected.append(Rejection(index, "amount is not a number"))
            continue
        # What `write` has set is read here, and stored when it returns: with the items, or not at all.
        total = float(state.get(key) or b"0") + amount
        state.set(key, repr(total).encode())
        lines.append(json.dumps({"key": key, "fields": {"total": total}}))
    with make("totals", "\n".join(lines)) as totals:
        pool.upsert(totals)
        renderers.publish(totals)
    if rejected:
        raise Err(WriteError_RejectItems(rejected))
