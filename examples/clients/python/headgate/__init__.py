"""Sends JSON to Headgate, batches, and retries without doubling anything."""

from .batcher import Batcher, FlushResult, Stats
from .client import Client
from .errors import HeadgateError
from .transport import VERSION as __version__
from .transport import Cancel
from .wire import Receipt, RequestState

__all__ = ["Batcher", "Cancel", "Client", "FlushResult", "HeadgateError", "Receipt", "RequestState", "Stats", "__version__"]
