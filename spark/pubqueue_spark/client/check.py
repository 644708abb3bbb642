"""Checks once, on the driver and before any task starts, whether publishing can work at all.

So a wrong password or a misspelt node fails the job once, with one sentence, and not in every task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue_spark.client.ask import ask
from pubqueue_spark.client.refusals import explanation
from pubqueue_spark.errors import OptionError, ServiceError
from pubqueue_xeps.wire import ns
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import IqRequest, pages
from pubqueue_xeps.wire.xml_text import attributes

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pubqueue_spark.client.ask import Answer
    from pubqueue_spark.client.option import Connection
    from pubqueue_spark.write.options import Settings

MAY_PUBLISH: Final = frozenset({"owner", "publisher", "publish-only"})  # XEP-0060 4.1


def check(settings: Settings) -> frozenset[str]:
    """Check the service and the nodes; return the features of the service.

    Raises OptionError if an option names something that does not exist or is not allowed, ServiceError if the service
    cannot be reached or refuses the login.
    """
    options = {"node": settings.node, "deadLetterNode": settings.dead_letter_node}
    nodes = {option: node for option, node in options.items() if node is not None}
    questions = [pages.request(settings.service)]
    for node in nodes.values():
        questions += [pages.request(settings.service, node), _affiliation(settings, node)]
    service, *answers = ask(settings, *questions)
    found = _check_service(service, settings)
    for number, (option, node) in enumerate(nodes.items()):
        info, standing = answers[2 * number : 2 * number + 2]
        _check_node(info, settings, option, node)
        _check_standing(standing, info, settings, option, node)
    return found


def features(settings: Connection) -> frozenset[str]:
    """Return the features of the service; raise as `check` does."""
    (service,) = ask(settings, pages.request(settings.service))
    return _check_service(service, settings)


def _affiliation(settings: Settings, node: str) -> IqRequest:
    """Ask for the account's affiliation with a node (XEP-0060 5.7)."""
    inner = f"<affiliations{attributes(node=node)}/>"
    return IqRequest(
        "get",
        f"what {settings.jid} is to node {node!r}",
        f"<pubsub xmlns='{ns.PUBSUB}'>{inner}</pubsub>",
    )


def _check_service(answer: Answer, settings: Connection) -> frozenset[str]:
    if isinstance(answer, Refusal):
        raise ServiceError(
            f"option service: {settings.service} does not answer as a service should: {explanation(answer)}."
        )
    found = pages.features(answer)
    if ns.QUEUEING not in found:  # XEP-0254 3: a service with queues announces them
        raise OptionError(
            f"option service: {settings.service} has no work queues (feature {ns.QUEUEING});"
            " give the JID of a pubqueue service."
        )
    return found


def _check_node(answer: Answer, settings: Settings, option: str, node: str) -> None:
    if isinstance(answer, Refusal):
        raise OptionError(
            f"option {option}: {settings.service} answers for {node!r}: {explanation(answer)}."
        )
    if option == "node" and ns.QUEUEING not in pages.features(answer):
        raise OptionError(
            f"option node: {node!r} is not a work queue; its owner turns one on with"
            " x-queueing#enabled in the node configuration."
        )


def _check_standing(
    answer: Answer, info: Answer, settings: Settings, option: str, node: str
) -> None:
    """Check that the account may publish, as far as the service shows this; otherwise the tasks get the refusal."""
    if isinstance(answer, Refusal) or isinstance(info, Refusal):
        return
    found = {
        it.get("affiliation", "")
        for it in answer.iter(f"{{{ns.PUBSUB}}}affiliation")
        if it.get("node", node) == node
    }
    if found & MAY_PUBLISH or ("outcast" not in found and _publish_model(info) != "publishers"):
        return
    raise OptionError(
        f"option {option}: {settings.jid} may not publish to {node!r} (it is: {min(found, default='none')});"
        " let the node's owner make it a publisher."
    )


def _publish_model(info: Element) -> str | None:
    """Return which accounts may publish to a node (XEP-0060 5.4), if the node shows that."""
    value = info.find(f".//{{{ns.DATA}}}field[@var='pubsub#publish_model']/{{{ns.DATA}}}value")
    return None if value is None else value.text
