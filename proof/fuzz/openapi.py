"""`.venv/bin/python -m proof.fuzz.openapi`: make requests from the OpenAPI document of REST, and hold every answer against it."""

import asyncio
import base64
import logging
import re
import sys
from functools import partial
from itertools import product

import structlog
from faces.rest.clients import links, served
from harness.http.judged import judge
from harness.patience import TIMEOUT
from harness.servers.users import RIGHT

MANY = 100
"""Requests of an operation that are many."""
NODES = {"queues": "jobs", "topics": "news", "nodes": "jobs"}
ETL = {"Authorization": f"Basic {base64.b64encode(f'etl:{RIGHT}'.encode()).decode()}"}


async def the_document(rest, profile="rest"):
    etl = await rest.as_("etl", profile)
    return (await etl.get(links(await etl.head("/queues/jobs"))["service-desc"])).json()


def at_nodes(document):
    """Return the document with the variables of nodes filled in: names at random are of nodes that are not there."""
    paths = {}
    for path, item in document["paths"].items():
        found = re.match(r"/(queues|topics|nodes)/\{node\}", path)
        if found is None:
            paths[path] = item
            continue
        rest = [one for one in item["parameters"] if one["name"] != "node"]
        paths[path.replace("{node}", NODES[found[1]])] = {**item, "parameters": rest}
    return {**document, "paths": paths}


async def judged(number, *, examples, known, profile="rest"):
    """Make requests of the nodes that are there, or of any; return how often each status came. `number` is the seed."""
    async with asyncio.timeout(None if examples > MANY else TIMEOUT):
        async with served(longest_wait=0.05, nothing=204) as rest:
            await rest.make("jobs", backoff_min=0)
            await rest.make("news", queueing=False)
            etl = await rest.as_()
            await etl.post("/queues/jobs/messages", content=b"x", headers={"Message-Id": "a"})
            document = await the_document(rest, profile)
            judging = partial(
                judge,
                at_nodes(document) if known else document,
                rest.root.removesuffix("rest") + profile,
                ETL,
                number=number,
                examples=examples,
                only=lambda method, path: not path.endswith("/events") and method != "DELETE",
            )
            return await asyncio.to_thread(judging)


async def main(number):
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for known, profile in product((False, True), ("rest", "hornetq")):
        statuses = await judged(number, examples=MANY, known=known, profile=profile)
        counts = ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items()))
        print(f"{statuses.total():,} requests, and every answer is in the document ({counts})")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
