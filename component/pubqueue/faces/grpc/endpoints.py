"""Push configs: their stored form, and those that clients set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from grpc import StatusCode

from pubqueue.faces.grpc.statuses import CallError, invalid
from pubqueue.faces.push.targets import TargetError, is_listed, read_endpoint
from pubqueue.rules.nodeconfig import PUSHED, all_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.model.entities import NodeConfig


# An endpoint is `http://` or `https://` and gets a POST, or `host:port`, which serves `tech.pubsub.PushEndpointService`. The
# operator lists the hosts and ports that may be called (`grpc.push_to`).

PUSH: Final = PUSHED
"""The mark with the endpoint of a subscription, as JSON."""


class Kept(msgspec.Struct, frozen=True):
    """The stored push config of a node."""

    endpoint: str
    attributes: dict[str, str] = {}


_KEPT: Final = msgspec.json.Decoder(Kept)


def kept(config: NodeConfig) -> Kept | None:
    """Return the push config of a node, None if messages are not pushed."""
    text = all_of(config.labels).get(PUSH, "") if config.labels else ""
    try:
        return _KEPT.decode(text) if text else None
    except msgspec.MsgspecError:
        return None


def written(endpoint: str, attributes: dict[str, str]) -> str | None:
    """Return the mark of a push config, None for none."""
    return msgspec.json.encode(Kept(endpoint, attributes)).decode() if endpoint else None


def checked(endpoint: str, attributes: Mapping[str, str], push_to: Iterable[str]) -> str | None:
    """Return the mark of a push config, None for none.

    Raises:
        CallError: it is not an endpoint, or one that may not be called.

    """
    if endpoint:
        try:
            found = read_endpoint(endpoint)
        except TargetError as problem:
            raise invalid(f"push_config: {problem}") from None
        if not is_listed(found, push_to):
            place = f"{found.host}:{found.port}"
            message = f"push_to of [grpc] in the service's configuration does not allow {place}"
            raise CallError(StatusCode.PERMISSION_DENIED, message)
    return written(endpoint, dict(attributes))
