// POSTs each batch as a JSON array to `url`, with `fetch`.
let config;

export const sink = {
  describe() {
    return {
      name: "notify",
      version: "0.1.0",
      configSchema: JSON.stringify({
        type: "object",
        properties: { url: { type: "string" } },
        required: ["url"],
        additionalProperties: false,
      }),
    };
  },

  open(text) {
    config = JSON.parse(text);
  },

  async write(batch) {
    const all = { start: 0, count: batch.len() };
    const body = batch.json(all, "item-array");
    batch[Symbol.dispose]();
    let response;
    try {
      response = await fetch(config.url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      });
      await response.arrayBuffer();
    } catch (error) {
      throw { tag: "retry", val: { reason: `no answer: ${error}` } };
    }
    if (response.ok) return;
    const reason = `answered ${response.status}`;
    if (response.status === 429 || response.status >= 500) throw { tag: "retry", val: { reason } };
    throw { tag: "reject", val: reason };
  },
};
