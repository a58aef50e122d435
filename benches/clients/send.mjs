// Sends so many items through a batcher, as the README shows; prints how many were accepted.

import { Client } from "@headgate/client";

const client = new Client();
const batcher = client.batcher({ itemKey: "id", onRejected: (items, error) => console.error(`${error}`) });
for (let id = 0; id < Number(process.argv[2]); id++) {
  await batcher.add({ id, customer: { name: "Ada Lovelace", city: "London" }, total: 12.5, status: "paid" });
}
await batcher.close();
console.log(batcher.stats.accepted);
