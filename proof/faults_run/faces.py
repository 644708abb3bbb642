"""The other faces of the service in a run: where they are, and their publishers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.servers.users import SERVICE, table

from proof.faults_run.over_grpc import GrpcPublisher, deliver_exactly_once
from proof.faults_run.over_rest import RestPublisher
from proof.faults_run.over_stomp import StompPublisher
from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proof.faults_run.publisher import Publisher
    from proof.judge.history import History

PUBLISHERS: Final[dict[str, Callable[[History, list[str]], Publisher]]] = {
    "stomp": StompPublisher,
    "rest": RestPublisher,
    "grpc": GrpcPublisher,
}
"""Each by the table of its settings; its worker is the module `over_` and this."""

HOST: Final = "127.0.0.1"
ACCOUNTS: Final = (f"etl@{SERVICE}", f"dev@{SERVICE}")
"""Of the clients of these faces; the second is that of gRPC."""


class Faces:
    """Some faces, at ports that stay the same for each instance."""

    def __init__(self, names: Sequence[str], instances: int) -> None:
        ports = iter(free_ports(len(names) * instances) if names else [])
        self.places = {name: [f"{HOST}:{next(ports)}" for _ in range(instances)] for name in names}

    def settings(self, instance: int) -> str:
        """Return the tables for an instance."""
        more = {"grpc": 'anonymous = "dev"', "stomp": "heart_beat = 600"}
        tables = [
            f'[{name}]\nlisten = "{places[instance]}"\n{more.get(name, "")}'
            for name, places in self.places.items()
        ]
        return "\n".join([*tables, table("etl"), table("dev")]) if tables else ""

    def publisher(self, name: str, history: History) -> Publisher:
        """Return the publisher of a face."""
        return PUBLISHERS[name](history, self.places[name])

    def begin(self) -> None:
        """Prepare what clients need, once the service is there."""
        if "grpc" in self.places:
            deliver_exactly_once(self.places["grpc"][0])
