"""Data of a binding that is stored with a node in one setting: labels of users, and marks of the service's own. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.rules import nodeconfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.model.entities import NodeConfig

OWN: Final = "x-pubqueue-"
"""The prefix of marks. Users cannot have such labels."""

EXACTLY_ONCE: Final = f"{OWN}exactly-once"
"""Whether acknowledgements are refused once the lock is over."""

DETACHED: Final = f"{OWN}detached"
"""Whether the subscription has been detached from its topic."""


def all_of(config: NodeConfig) -> dict[str, str]:
    """Return labels and marks of a node; none if another program has written other text there."""
    try:
        return nodeconfig.read(config.labels)
    except nodeconfig.LabelError:
        return {}


def of_users(config: NodeConfig) -> dict[str, str]:
    """Return the labels without the marks."""
    return {name: value for name, value in all_of(config).items() if not name.startswith(OWN)}


def has(config: NodeConfig, mark: str) -> bool:
    """Return whether the node has the mark."""
    return bool(config.labels) and mark in all_of(config)


def with_labels(config: NodeConfig | None, given: Mapping[str, str]) -> str:
    """Return the setting with these labels of users; the marks stay."""
    kept = {} if config is None else all_of(config)
    own = {name: value for name, value in kept.items() if name.startswith(OWN)}
    return nodeconfig.written_labels({**given, **own})


def with_mark(text: str, mark: str, value: str | None) -> str:
    """Return the setting with a mark, or without it if the value is None."""
    found = nodeconfig.read(text)
    found.pop(mark, None)
    if value is not None:
        found[mark] = value
    return nodeconfig.written_labels(found)
