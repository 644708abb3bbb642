"""The binding `google.pubsub.v1`: Publisher and Subscriber, and `google.iam.v1` for their rights."""

from pubqueue.faces.grpc.calls import Service
from pubqueue.faces.grpc.v1 import iam, services

SERVICES = (
    Service("google.pubsub.v1.Publisher", services.PUBLISHER),
    Service(
        *("google.pubsub.v1.Subscriber", services.SUBSCRIBER, services.STREAMS),
        waits=services.WAITS,
    ),
    Service("google.pubsub.v1.SchemaService", services.SCHEMAS),
    Service("google.iam.v1.IAMPolicy", iam.RPCS),
)
"""The services, each with a row for every rpc."""
