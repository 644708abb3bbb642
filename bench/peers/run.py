"""Runs every probe at every service, and collects the results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from bench.peers import probes_items as items
from bench.peers import probes_nodes as nodes
from bench.peers import probes_people as people
from bench.peers.servers import services
from bench.peers.service import NotDoneError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from bench.peers.service import Service

    Probe = Callable[[Service], Awaitable[bool]]

# fmt: off
PROBES: Final[Mapping[str, Probe]] = {
    "nodes without a name get one":                                nodes.instant_nodes,
    "settings come with the creation":                             nodes.create_and_configure,
    "a publish makes the node (`auto-create`)":                    nodes.auto_create,
    "`publish-options` are preconditions":                         nodes.publish_options,
    "`publish-options` make a node as they say":                   nodes.publish_options_create,
    "the default settings of a node can be read (`retrieve-default`)":    nodes.default_configuration,
    "an unknown setting is refused":                               nodes.unknown_settings,
    "`max_items` may be `max`":                                    nodes.max_items_max,
    "disco#info of a node: title, type":                           nodes.metadata,
    "disco#info of a node: number of subscribers":                 nodes.counted,
    "commands for owners (XEP-0050)":                              nodes.commands,
    "nodes are listed by type (XEP-0462)":                         nodes.type_filter,
    "collections (XEP-0248)":                                      nodes.collections,
    "subscribers are notified of new settings (`notify_config`)":          nodes.configuration_notified,
    "purge, with one event":                                       nodes.purge,
    "delete with redirect; later requests get `gone`":        nodes.redirect,
    "access model whitelist, with members":                        people.whitelist,
    "access model authorize, with the owner's form":               people.authorize,
    "access model presence":                                       people.presence_model,
    "access model roster":                                         people.roster_model,
    "pending subscriptions (`get-pending`)":                      people.get_pending,
    "publish models publishers and open":                          people.open_publishing,
    "publish model subscribers":                                   people.subscribers_publish,
    "affiliation publish-only":                                    people.publish_only,
    "affiliation outcast, which ends the subscription":            people.outcast,
    "a node keeps an owner":                                       people.last_owner,
    "owners see and end subscriptions":                            people.manage_subscriptions,
    "removed subscribers are notified (`subscription-notifications`)":   people.subscription_notified,
    "subscription options: `deliver`":                             people.options,
    "the options of a new subscription can be read":                  people.default_options,
    "subscriptions that end at a time (`expire`)":                 people.lease,
    "subscriptions that end when one leaves (`tempsub`)":          people.temporary,
    "several subscriptions of one JID (`multi-subscribe`)":        people.several,
    "nodes that take no subscribers (`subscribe`)":                people.not_subscribable,
    "events only while one is there (`presence_based_delivery`)":  people.while_present,
    "items in pages, with their count (`rsm`)":                    items.pages,
    "the newest items":                                            items.newest,
    "items by their ids":                                          items.several_by_id,
    "items in order of creation or change (XEP-0413)":             items.order_by,
    "a full node drops its oldest item":                           items.oldest_dropped,
    "a full node refuses (`publish_node_full`)":                   items.full_rejects,
    "a smaller `max_items` acts at once":                          items.lowered,
    "items go when their time is over (`item_expire`)":            items.expiry,
    "retract, with an event if asked":                             items.retract,
    "several items in one publish":                                items.batch,
    "payloads of one namespace (`type`)":                          items.payload_type,
    "payloads up to a size (`max_payload_size`)":                  items.payload_size,
    "events without payloads (`deliver_payloads`)":                items.without_payloads,
    "nodes that keep nothing (`persist_items`)":                   items.transient,
    "the last item on subscribing":                                items.last_item,
    "headlines or normal messages (`notification_type`)":          items.message_type,
    "the publisher, as known to the service":                    items.publisher_named,
    "each item to one subscriber (XEP-0254)":                      items.queueing,
    "batches that are committed":                                  items.transactions,
}
# fmt: on


async def asked(folder: Path) -> dict[str, dict[str, bool]]:
    """Return the results of each service, by the names of the probes."""
    async with services(folder) as all_of_them:
        answers = await asyncio.gather(*map(_ask, all_of_them.values()))
        return dict(zip(all_of_them, answers, strict=True))


async def _ask(service: Service) -> dict[str, bool]:
    return {name: await _tried(probe, service) for name, probe in PROBES.items()}


async def _tried(probe: Probe, service: Service) -> bool:
    try:
        return await probe(service)
    except NotDoneError:
        return False
    except Exception as failure:
        failure.add_note(f"{probe.__name__} of {service.address}")
        raise
