"""The routes of `rest-star`: the table of its resources."""

from __future__ import annotations

from typing import Final

from pubqueue.faces.rest.http.routes import Profile, Route
from pubqueue.faces.rest.openapi import served
from pubqueue.faces.rest.openapi.star import STAR
from pubqueue.faces.rest.star import (
    acknowledging,
    batches,
    consuming,
    destinations,
    events,
    messages,
    once,
    publishing,
    subscribers,
    topics,
)

_ACK: Final = "/queues/{node}/messages/{id}/acknowledgement"


def _once() -> tuple[Route, ...]:
    """Return the routes of one-off links."""
    found: list[Route] = []
    for kind in once.ONE_OFFS:
        begin, post, look = once.handlers(kind)
        place = f"/{'queues' if kind.is_queue else 'topics'}/{{node}}/{kind.below}"
        found += [
            Route("POST", place, begin, kind.rel),
            Route("POST", place + "/{key}", post, "create-next"),
            Route("GET", place + "/{key}", look, "create-next"),
        ]
    return tuple(found)


ONCE: Final = _once()

# fmt: off
ROUTES: Final = (
    Route("GET",    "/queues/{node}",                 destinations.get_queue,     "queue"),
    Route("PUT",    "/queues/{node}",                 destinations.put_queue,     "queue"),
    Route("DELETE", "/queues/{node}",                 destinations.delete_queue,  "queue"),
    Route("GET",    "/topics/{node}",                 destinations.get_topic,     "topic"),
    Route("PUT",    "/topics/{node}",                 destinations.put_topic,     "topic"),
    Route("DELETE", "/topics/{node}",                 destinations.delete_topic,  "topic"),
    Route("POST",   "/queues/{node}/messages",        publishing.post_to_queue,   "post-message"),
    Route("POST",   "/topics/{node}/messages",        publishing.post_to_topic,   "post-message"),
    Route("POST",   "/nodes/{node}/messages",         publishing.post_to_node,    "post-message"),
    *ONCE,
    Route("POST",   "/queues/{node}/batches",         batches.post_to_queue,      "post-batch"),
    Route("POST",   "/topics/{node}/batches",         batches.post_to_topic,      "post-batch"),
    Route("GET",    "/queues/{node}/batches/{key};n={count}", batches.get_of_queue, "batch"),
    Route("GET",    "/topics/{node}/batches/{key};n={count}", batches.get_of_topic, "batch"),
    Route("GET",    "/queues/{node}/messages/{id}",   messages.get_of_queue,      "message"),
    Route("DELETE", "/queues/{node}/messages/{id}",   messages.delete_of_queue,   "message"),
    Route("GET",    "/topics/{node}/messages/{id}",   messages.get_of_topic,      "message"),
    Route("DELETE", "/topics/{node}/messages/{id}",   messages.delete_of_topic,   "message"),
    Route("GET",    "/nodes/{node}/messages/{id}",    messages.get_of_node,       "message"),
    Route("GET",    "/topics/{node}/first",           topics.first,               "first"),
    Route("GET",    "/topics/{node}/last",            topics.last,                "last"),
    Route("GET",    "/topics/{node}/next",            topics.upcoming,            "next"),
    Route("GET",    "/topics/{node}/after/{number}",  topics.after,               "next"),
    served.route(STAR),
    Route("GET",    "/queues/{node}/events",          events.of_queue,            "events"),
    Route("GET",    "/topics/{node}/events",          events.of_topic,            "events"),
    Route("GET",    _ACK + ";etag={token}",           acknowledging.look,         "acknowledgement"),
    Route("GET",    _ACK + "/{token}",                acknowledging.look,         "acknowledgement"),
    Route("POST", "/queues/{node}/subscribers", subscribers.post_to_queue, "subscribers"),
    Route("GET", "/queues/{node}/subscribers", subscribers.list_of_queue, "subscribers"),
    Route("GET", "/queues/{node}/subscribers/{name}", subscribers.get_of_queue, "subscriber"),
    Route("POST", "/queues/{node}/subscribers/{name}", subscribers.set_of_queue, "subscriber"),
    Route("POST", "/topics/{node}/subscribers/{name}", subscribers.set_of_topic, "subscriber"),
    Route("DELETE", "/queues/{node}/subscribers/{name}", subscribers.delete_of_queue, "subscriber"),
    Route("POST", "/topics/{node}/subscribers", subscribers.post_to_topic, "subscribers"),
    Route("GET", "/topics/{node}/subscribers", subscribers.list_of_topic, "subscribers"),
    Route("GET", "/topics/{node}/subscribers/{name}", subscribers.get_of_topic, "subscriber"),
    Route("DELETE", "/topics/{node}/subscribers/{name}", subscribers.delete_of_topic, "subscriber"),
    Route("POST",   "/queues/{node}/consumer",        consuming.take,             "consumer"),
    Route("POST",   _ACK + ";etag={token}",           acknowledging.acknowledge,  "acknowledgement"),
    Route("POST",   _ACK + "/{token}",                acknowledging.acknowledge,  "acknowledgement"),
)
# fmt: on


def profile(prefix: str) -> Profile:
    """Return the profile below this prefix."""
    return Profile("rest-star", prefix, ROUTES)
