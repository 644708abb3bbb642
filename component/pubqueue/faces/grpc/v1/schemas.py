"""`google.pubsub.v1.SchemaService`: payloads are opaque to the service, so it has no schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.grpc.services import refused
from pubqueue.faces.grpc.wire.messages import service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.faces.grpc.services import Unary

RPCS: Final[Mapping[str, Unary]] = {
    method.name: refused(f"SchemaService.{method.name}")
    for method in service("google.pubsub.v1.SchemaService").methods
}
"""The rpcs of the service."""
