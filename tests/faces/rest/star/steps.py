"""Steps of the profile `rest-star`: a message is posted, taken and settled, by links alone."""

from faces.rest.clients import follow, links

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def post(client, body=b"work", kind="text/plain", path="/queues/jobs", **headers):
    """Post a message; return the answer."""
    to = await follow(client, path, "post-message")
    typed = {} if kind is None else {"Content-Type": kind}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(to, content=body, headers={**typed, **named})


async def take(client, path="/queues/jobs", **headers):
    """Ask for the next message; return the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(await follow(client, path, "consumer"), headers=named)


async def settle(client, message, verdict="acknowledge=true", **headers):
    """Post a form to the acknowledgement of a message; return the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    where = links(message)["acknowledgement"]
    return await client.post(where, content=verdict, headers={**FORM, **named})
