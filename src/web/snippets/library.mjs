// npm install ./examples/clients/node, in a copy of Headgate's repository
import { Client } from "@headgate/client";

const client = new Client("{base}"{key});{from}
const receipt = await client.send({ {field}: 1, name: "first" }, { itemKey: {field} });
console.log((await client.wait(receipt)).status);
