"""Steps of clients of the profile `hornetq`, which follow the links that they are given."""

import asyncio

from faces.rest.clients import links

from pubqueue.rules.registrations import ListRegistrations, NotePush

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def msg(response):
    """Return the links of an answer, by their names without `msg-`; each has to be a field `Link` too, but a template."""
    found = {
        name.removeprefix("msg-"): value
        for name, value in response.headers.items()
        if name.startswith("msg-")
    }
    plain = {rel: url for rel, url in found.items() if "{" not in url}
    fields = links(response)
    assert plain == {rel: fields.get(rel) for rel in plain}, (found, fields)
    return found


async def lead(client, path, rel):
    """Return where a relation of a destination leads."""
    answer = await client.head(path)
    assert answer.status_code == 200, answer
    return msg(answer)[rel]


async def create(client, body=b"x", path="/queues/jobs", **headers):
    """Create a message."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(await lead(client, path, "create"), content=body, headers=named)


async def consumer(client, path="/queues/jobs", **form):
    """Make a pull consumer, and return the answer."""
    made = await client.post(await lead(client, path, "pull-consumers"), data=form or None)
    assert made.status_code == 201, made.text
    return made


async def count(rest, path="/queues/jobs"):
    """How many messages there are."""
    return (await (await rest.as_()).get(path)).json()["counts"]["messages"]


async def consumers(rest):
    """How many consumers there are, on any instance."""
    page = await rest.broker.handle(ListRegistrations(rest.face.pulling.service))
    return sum(row.is_pulled for row in page.entries)


async def no_consumers(rest):
    return not await consumers(rest)


def held_up(rest, monkeypatch):
    """Have the notes of consumers wait for the turn of their account for ever; return the event that one does."""
    submit, waits = rest.face.submit, asyncio.Event()

    async def waiting(by, request, size=0):
        if isinstance(request, NotePush):
            waits.set()
            await asyncio.Event().wait()
        return await submit(by, request, size)

    monkeypatch.setattr(rest.face, "submit", waiting)
    return waits
