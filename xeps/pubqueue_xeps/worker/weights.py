"""What each queue of a worker gets: its window, and its turns.

A worker of several queues has a weight for each. While all of them have work, a queue gets as many of the worker's
items as its weight says: its window is that share of all windows, and if fewer handlers run than items are here, it
has that share of the turns. Turns that a queue has not taken are not saved: one that was empty for an hour does not
then keep all others waiting for as long.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from pubqueue_xeps.errors import ConfigurationError
from pubqueue_xeps.limits import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


def weights_of(nodes: Sequence[str], given: Mapping[str, int] | None) -> dict[str, int]:
    """Return the weight of each node, 1 unless another is given; raise ValueError for another node, or another value."""
    weights = dict.fromkeys(nodes, 1)
    for node, weight in (given or {}).items():
        if node not in weights:
            raise ConfigurationError(
                f"A weight is given to {node!r}, which is no node of this worker.",
                argument="weights",
            )
        weights[node] = whole(f"the weight of {node!r}", weight, 1) or 1
    return weights


def windows_of(
    requests: int, weights: Mapping[str, int], least: Callable[[str], int] = lambda _node: 1
) -> dict[str, int]:
    """Return the window of each node: its share of `requests` for each node, and never less than `least`."""
    total, all_weights = requests * len(weights), sum(weights.values())
    return {
        node: max(least(node), total * weight // all_weights) for node, weight in weights.items()
    }


class Turns:
    """Whose turn it is: the nodes that have work, the one that has had the least for its weight first."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        common = lcm(*weights.values())
        self._cost = {node: common // weight for node, weight in weights.items()}
        self._had = dict.fromkeys(weights, 0)
        self._now = 0
        """What the node whose turn was last had had until then."""

    def join(self, node: str) -> None:
        """Note that a node has work again."""
        self._had[node] = max(self._had[node], self._now)

    def take(self, node: str) -> None:
        """Note that a node has had a turn."""
        self._now = self._had[node]
        self._had[node] += self._cost[node]

    def order(self, nodes: Iterable[str]) -> list[str]:
        """Return the nodes, the one whose turn it is first; of equals, the first."""
        return sorted(nodes, key=self._had.__getitem__)
