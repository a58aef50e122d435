"""Sends JSON to Headgate in batches, retries without creating duplicates, and reads and follows streams."""

from .aio import AsyncBatcher, AsyncClient
from .aio_reader import AsyncReader, AsyncView
from .batcher import Batcher
from .client import Client
from .errors import HeadgateError
from .reader import Message, Reader
from .transport import VERSION as __version__
from .transport import Cancel
from .verdict import Receipt
from .view import View
from .wire import FlushResult, Item, RequestState, Stats

__all__ = [
    "AsyncBatcher", "AsyncClient", "AsyncReader", "AsyncView", "Batcher", "Cancel", "Client", "FlushResult",
    "HeadgateError", "Item", "Message", "Reader", "Receipt", "RequestState", "Stats", "View", "__version__",
]
