"""Pending subscriptions: the requests are sent to an owner again (XEP-0060 8.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import ask_powers, choose_node, node_of
from pubqueue.faces.xmpp.commands.steps import Command, CommandStep, Result
from pubqueue.model.entities import AccessModel
from pubqueue.model.replies import Power
from pubqueue.rules.subscribers import AT_ONCE, SendPending
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from pubqueue.model.decision import Done, Request
    from pubqueue.model.entities import Node, Principal
    from pubqueue.operations.model import Given

NODE: Final = "pubsub#node"


def _approves(node: Node) -> bool:
    return node.config.access_model is AccessModel.AUTHORIZE


def _ask(by: Principal, given: Given) -> Request:
    return SendPending(by, node_of(given, NODE))


def _show(_done: Done, given: Given) -> Result:
    return Result(
        f"The pending requests of {node_of(given, NODE)} are sent to you, up to {AT_ONCE} at a time."
    )


COMMANDS: Final = (
    Command(
        f"{ns.PUBSUB}#get-pending",
        "Get requests to subscribe",
        Power.NODES,
        (
            CommandStep(
                ask_powers(Power.NODES),
                choose_node(
                    "Requests to subscribe",
                    "Choose the node whose requests you want to answer.",
                    fits=_approves,
                    none="You own no nodes whose subscriptions need approval.",
                    var=NODE,
                    form_type=ns.SUBSCRIBE_AUTHORIZATION,
                ),
            ),
            CommandStep(_ask, _show),
        ),
    ),
)
