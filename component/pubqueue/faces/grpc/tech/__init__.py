"""The binding `tech.pubsub`: PublisherService and SubscriberService, and the push service that is called."""

from pubqueue.faces.grpc.services import Service
from pubqueue.faces.grpc.tech import publisher, subscriber

SERVICES = (
    Service("tech.pubsub.PublisherService", publisher.RPCS),
    Service("tech.pubsub.SubscriberService", subscriber.RPCS, waits=subscriber.WAITS),
)
"""The services, each with a row for every rpc."""
