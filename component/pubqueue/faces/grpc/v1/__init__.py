"""The binding `google.pubsub.v1`: Publisher and Subscriber, and `google.iam.v1` for their rights."""

from pubqueue.faces.grpc.services import Service
from pubqueue.faces.grpc.v1 import iam, publisher, schemas, subscriber

SERVICES = (
    Service("google.pubsub.v1.Publisher", publisher.RPCS),
    Service(
        *("google.pubsub.v1.Subscriber", subscriber.RPCS, subscriber.STREAMS),
        waits=subscriber.WAITS,
    ),
    Service("google.pubsub.v1.SchemaService", schemas.RPCS),
    Service("google.iam.v1.IAMPolicy", iam.RPCS),
)
"""The services, each with a row for every rpc."""
