"""Sends so many items through a batcher for asyncio, as the README shows; prints how many were accepted."""

import asyncio
import sys

from headgate import AsyncClient


async def main():
    async with AsyncClient() as client:
        async with client.batcher(item_key="id", on_rejected=lambda items, error: sys.exit(str(error))) as batcher:
            for number in range(int(sys.argv[1])):
                customer = {"name": "Ada Lovelace", "city": "London"}
                await batcher.add({"id": number, "customer": customer, "total": 12.5, "status": "paid"})
        print(batcher.stats.accepted)


asyncio.run(main())
