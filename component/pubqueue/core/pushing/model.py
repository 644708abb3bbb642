"""A registration: where the items of a node are pushed to, and its state. And pages of what is pushed."""

from __future__ import annotations

from msgspec import Struct

from pubqueue.core.model import Jid, Millis, Node, NodeName  # msgspec reads them

MAX_OF_ACCOUNT = 100
"""Registrations of one account."""


class Registration(Struct, frozen=True, gc=False):
    """Where items are pushed to.

    `words` belong to the face that pushes. `position` is the number of the last item of a plain node that was pushed, and
    `following` a URL that the target has given for the next one. The instance `runner` pushes until `until`; another may take
    over after that.
    """

    name: str
    account: Jid
    node: NodeName
    queueing: bool
    words: bytes
    disabled: bool = False
    failures: int = 0
    """Failures since the last success."""
    error: str = ""
    """The last failure, for operators; it contains nothing of an item."""
    position: int = 0
    following: str = ""
    runner: str = ""
    until: Millis = Millis(0)
    revision: int = 0
    """Rises with each change."""

    def __repr__(self) -> str:
        """Show only the name: the words may contain passwords."""
        return f"Registration({self.name!r})"


class Registrations(Struct, frozen=True, gc=False):
    """Registrations by name; `more` if others follow."""

    entries: tuple[Registration, ...]
    more: bool = False


class PushedNodes(Struct, frozen=True, gc=False):
    """Nodes by name whose items are pushed to an endpoint in their labels; `more` if others follow."""

    nodes: tuple[Node, ...]
    more: bool = False
