"""Handlers for several kinds of work in one worker.

    app = Handlers()

    @app.handler("rebook", retries=5, backoff=10, time_limit=30, concurrency=4)
    async def rebook(item: Item, flight: Flight) -> None: ...

    @app.handler(header="kind", equals="mail")
    def mail(item: BlockingItem) -> None: ...                   # blocks, so it runs in a thread

    await Worker(...).run(app)

A handler matches items by a header, a JSON field, an element, or a name. If several handlers match an item, a header
outranks a field, then an element, then a name. A handler without any of these matches all other items.
"""

from pubqueue_xeps.worker.handling.handlers import Handlers

__all__ = ["Handlers"]
