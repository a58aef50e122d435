"""Keeps items whose `value` is at least `least`, without their field `secret`."""

import json
import math
import traceback

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.sink import Descriptor, Rejection, WriteError_RejectItems
from wit_world.imports import logging, metrics, pool, renderers
from wit_world.imports.batches import Batch, Span

ALL = Span(0, 0xFFFFFFFF)
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"least": {"type": "number"}},
    "required": ["least"],
    "additionalProperties": False,
}

config = {}


class Sink(exports.Sink):
    def describe(self) -> Descriptor:
        return Descriptor("threshold", "0.1.0", json.dumps(CONFIG_SCHEMA))

    def open(self, text: str) -> None:
        config.update(json.loads(text))

    def write(self, batch: Batch) -> None:
        try:
            with batch:
                take(batch)
        except Err:
            raise
        except Exception as error:
            # An exception becomes a trap, which has no words of its own. There are no sources to print lines of.
            frames = [f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
            logging.log(logging.Level.ERROR, f"{error!r} at {', '.join(frames)}")
            raise


def take(batch: Batch) -> None:
    keep, rejected = [], []
    for index, value in enumerate(batch.numbers("value", ALL)):
        if math.isnan(value):
            rejected.append(Rejection(index, "value is not a number"))
        elif value >= config["least"]:
            keep.append(index)

    with batch.select(keep) as selected, selected.without(["secret"]) as kept:
        pool.upsert(kept)
        renderers.publish(kept)
    metrics.count("kept", len(keep))

    if rejected:
        raise Err(WriteError_RejectItems(rejected))
