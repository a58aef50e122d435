"""Makes the database that Datasette serves: a table for each stream, with a column for each field of the bench's items.

Called by `run` with the file and the streams.
"""

import sqlite3
import sys

FIELDS = ("total", "currency", "revision")
COLUMNS = [f"order.{name}" for name in FIELDS] + ["customer.name", "customer.city", "status", "tags", "position"]

path, *streams = sys.argv[1:]
database = sqlite3.connect(path)
database.execute("PRAGMA journal_mode = WAL")
rest = ", ".join(f'"{column}"' for column in COLUMNS)
for stream in streams:
    database.execute(f'CREATE TABLE IF NOT EXISTS "{stream}" ("order.id" TEXT PRIMARY KEY, {rest})')
