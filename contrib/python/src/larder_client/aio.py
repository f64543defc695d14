"""The client for asyncio.

>>> async def main() -> None:
...     async with larder_client.aio.Client() as client:
...         print(await client.get("search.limit", default=10))
>>> asyncio.run(main())
50

Its classes have the methods of the blocking ones, as coroutines.
"""

from ._aio_client import Apply, Client, Flags, Image, Watch

__all__ = ["Apply", "Client", "Flags", "Image", "Watch"]
