"""Targets of pushes over real sockets, which answer as a test wants."""

import asyncio
from contextlib import asynccontextmanager
from ipaddress import ip_network

from aiohttp import web
from faces.rest.clients import served
from harness.patience import LOOK, until
from lxml import etree

LOOPBACK = (ip_network("127.0.0.0/8"),)


class Hook:
    """A target. `answers` are given in turn, the last one again and again; each is a status, a response, or a coroutine function."""

    def __init__(self, *answers):
        self.answers = list(answers) or [204]
        self.seen = asyncio.Queue()
        self.count = self.now = self.most = 0
        self.url = ""

    async def handle(self, request):
        body = await request.read()
        self.count += 1
        self.now += 1
        self.most = max(self.most, self.now)
        self.seen.put_nowait((request, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        try:
            if callable(answer):
                answer = await answer(request)
            if isinstance(answer, web.StreamResponse):
                return answer
            status, headers = answer if isinstance(answer, tuple) else (answer, {})
            return web.Response(status=status, headers=headers)
        finally:
            self.now -= 1

    async def next(self):
        """Return the next request and its body."""
        return await self.seen.get()


@asynccontextmanager
async def hooked(*hooks, also=()):
    """Serve these targets, each at its own path of one port, at other addresses `also`; returns what their URLs begin with."""
    app = web.Application(client_max_size=1 << 24)
    for number, hook in enumerate(hooks):
        app.router.add_route("*", f"/{number}{{tail:.*}}", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    for host in also:
        await web.TCPSite(runner, host, port).start()
    root = f"http://127.0.0.1:{port}"
    for number, hook in enumerate(hooks):
        hook.url = f"{root}/{number}"
    try:
        yield root
    finally:
        await runner.cleanup()


def pushes_to(root, networks=LOOPBACK, **more):
    """Return settings by which messages may be pushed to this target; `more` are without `push_`."""
    others = {f"push_{key}": value for key, value in more.items()}
    return {"push_to": (root,), "push_networks": tuple(map(str, networks)), **others}


@asynccontextmanager
async def pushing(*hooks, networks=LOOPBACK, store=None, calendar=None, **settings):
    """Serve REST that may push to these targets."""
    async with hooked(*hooks) as root:
        push = pushes_to(root, networks, **{"timeout": 5.0, **settings})
        async with served(store, calendar, **push) as rest:
            await rest.make("jobs", backoff_min=0)
            await rest.make("news", queueing=False)
            yield rest


def atom(href, rel="post-message"):
    """Return a registration as the posts on REST messaging print it."""
    return f'<atom:link rel="{rel}" href="{href}"/>'


async def register(client, href, rel="post-message", path="/queues/jobs"):
    """Register a target."""
    return await client.post(
        f"{path}/subscribers",
        content=atom(href, rel),
        headers={"Content-Type": "application/atom+xml"},
    )


async def state(client, where):
    """Return the attributes of a registration."""
    return dict(etree.fromstring((await client.get(where)).content).attrib)


async def gone(rest, path="/queues/jobs"):
    """Wait until the queue is empty."""
    etl = await rest.as_()

    async def count():
        return (await etl.get(path)).json()["counts"]["messages"] == 0

    await until(count, every=LOOK)


async def counted(client, state):
    """Return whether the one message of the queue is in this state."""
    counts = (await client.get("/queues/jobs")).json()["counts"]
    return (counts["messages"], counts[state]) == (1, 1)


async def disabled(client, place):
    """Wait until the registration is disabled."""

    async def is_disabled():
        return (await state(client, place))["state"] == "disabled"

    await until(is_disabled, every=LOOK)
