"""The routes of `hornetq`: the table of its resources."""

from __future__ import annotations

from typing import Final

from pubqueue.faces.rest.hornetq import creating, destinations, pulling, pushing, subscribing
from pubqueue.faces.rest.http.routes import Profile, Route
from pubqueue.faces.rest.openapi import served
from pubqueue.faces.rest.openapi.hornetq import HORNETQ
from pubqueue.faces.rest.star.destinations import delete_queue, delete_topic

_CONSUMER: Final = "/queues/{node}/pull-consumers/attributes-{kind}/{name}"
_SUBSCRIPTION: Final = "/topics/{node}/pull-subscriptions/attributes-{kind}/{name}"

# fmt: off
ROUTES: Final = (
    served.route(HORNETQ),
    Route("POST",   "/queues",                    destinations.create_queue, "queues"),
    Route("POST",   "/topics",                    destinations.create_topic, "topics"),
    Route("GET",    "/queues/{node}",             destinations.get_queue,    "queue"),
    Route("DELETE", "/queues/{node}",             delete_queue,              "queue"),
    Route("GET",    "/topics/{node}",             destinations.get_topic,    "topic"),
    Route("DELETE", "/topics/{node}",             delete_topic,              "topic"),
    Route("POST",   "/queues/{node}/pull-consumers", pulling.create, "pull-consumers"),
    Route("GET",    _CONSUMER,                    pulling.look,              "pull-consumer"),
    Route("DELETE", _CONSUMER,                    pulling.delete,            "pull-consumer"),
    Route("POST",   _CONSUMER + "/consume-next-{number}", pulling.consume,   "consume-next"),
    Route("POST",   _CONSUMER + "/acknowledge-next-{number}", pulling.acknowledge_next, "acknowledge-next"),
    Route("POST",   _CONSUMER + "/acknowledgement/{id}/{token}", pulling.acknowledge, "acknowledgement"),
    Route("POST",   "/topics/{node}/pull-subscriptions", subscribing.create, "pull-consumers"),
    Route("GET",    _SUBSCRIPTION,                subscribing.look,          "pull-consumer"),
    Route("DELETE", _SUBSCRIPTION,                subscribing.delete,        "pull-consumer"),
    Route("POST",   _SUBSCRIPTION + "/consume-next-{number}", subscribing.consume, "consume-next"),
    Route("POST",   _SUBSCRIPTION + "/acknowledge-next-{number}", subscribing.acknowledge_next, "acknowledge-next"),
    Route("POST",   _SUBSCRIPTION + "/acknowledgement/{id}/{token}", subscribing.acknowledge, "acknowledgement"),
    Route("POST",   "/queues/{node}/push-consumers", pushing.create_of_queue, "push-consumers"),
    Route("GET",    "/queues/{node}/push-consumers/{name}", pushing.get_of_queue, "push-consumer"),
    Route("DELETE", "/queues/{node}/push-consumers/{name}", pushing.delete_of_queue, "push-consumer"),
    Route("POST",   "/topics/{node}/push-subscriptions", pushing.create_of_topic, "push-consumers"),
    Route("GET",    "/topics/{node}/push-subscriptions/{name}", pushing.get_of_topic, "push-consumer"),
    Route("DELETE", "/topics/{node}/push-subscriptions/{name}", pushing.delete_of_topic, "push-consumer"),
    Route("POST",   "/queues/{node}/create",      creating.queue,            "create"),
    Route("POST",   "/topics/{node}/create",      creating.topic,            "create"),
    Route("POST",   "/nodes/{node}/create",       creating.node,             "create"),
    Route("POST",   "/queues/{node}/create/{id}", creating.queue_with_id,    "create-with-id"),
    Route("PUT",    "/queues/{node}/create/{id}", creating.queue_with_id,    "create-with-id"),
    Route("POST",   "/topics/{node}/create/{id}", creating.topic_with_id,    "create-with-id"),
    Route("PUT",    "/topics/{node}/create/{id}", creating.topic_with_id,    "create-with-id"),
)
# fmt: on


def profile(prefix: str) -> Profile:
    """Return the profile below this prefix."""
    return Profile("hornetq", prefix, ROUTES, posting="create")
