// Keeps items whose `value` is at least `least`, without their field `secret`.
import * as logging from "headgate:sink/logging@1.2.0";
import * as metrics from "headgate:sink/metrics@1.2.0";
import * as pool from "headgate:sink/pool@1.2.0";
import * as renderers from "headgate:sink/renderers@1.2.0";

const ALL = { start: 0, count: 0xffffffff };
let config;

export const sink = {
  describe() {
    return {
      name: "threshold",
      version: "0.1.0",
      configSchema: JSON.stringify({
        type: "object",
        properties: { least: { type: "number" } },
        required: ["least"],
        additionalProperties: false,
      }),
    };
  },

  open(text) {
    config = JSON.parse(text);
  },

  write(batch) {
    try {
      take(batch);
    } catch (error) {
      // An exception becomes a trap, which has no words of its own.
      if (error instanceof Error) logging.log("error", `${error}\n${error.stack}`);
      throw error;
    }
  },
};

function take(batch) {
  const keep = [];
  const rejected = [];
  batch.numbers("value", ALL).forEach((value, index) => {
    if (Number.isNaN(value)) rejected.push({ index, reason: "value is not a number" });
    else if (value >= config.least) keep.push(index);
  });

  const selected = batch.select(keep);
  const kept = selected.without(["secret"]);
  pool.upsert(kept);
  renderers.publish(kept);
  metrics.count("kept", keep.length);
  for (const handle of [kept, selected, batch]) handle[Symbol.dispose]();

  if (rejected.length > 0) throw { tag: "reject-items", val: rejected };
}
