"""Sends so many items through a batcher, as the README shows; prints how many were accepted."""

import sys

from headgate import Client

with Client() as client:
    with client.batcher(item_key="id", on_rejected=lambda items, error: sys.exit(str(error))) as batcher:
        for number in range(int(sys.argv[1])):
            batcher.add({"id": number, "customer": {"name": "Ada Lovelace", "city": "London"}, "total": 12.5, "status": "paid"})
    print(batcher.stats.accepted)
