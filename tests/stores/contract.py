"""What every store promises, as one suite. A store's test class inherits it and says how to make one.

Everything is asked through the seam (`pubqueue.engine.ports`), so that a store can be anything.
"""

from __future__ import annotations

import pytest
from harness.stores.store_contents import recount
from stores.of_alerts import OfAlerts
from stores.of_batches import OfBatches, OfSharing
from stores.of_commits import OfCommits
from stores.of_contents import OfContents
from stores.of_crowds import OfCrowds
from stores.of_done import OfDone
from stores.of_event_log import OfHistory
from stores.of_groups import OfGroups
from stores.of_instances import OfInstances
from stores.of_items import OfItems
from stores.of_names import OfNames
from stores.of_nodes import OfNodes
from stores.of_plain_nodes import OfPlainNodes
from stores.of_registrations import OfRegistrations
from stores.of_samples import OfSamples
from stores.of_schedules import OfSchedules
from stores.of_slices import OfSlices
from stores.of_staging import OfStaging
from stores.of_subscriptions import OfSeveral, OfSubscriptions
from stores.of_time import OfTime
from stores.of_waits import OfWaits
from stores.steps import EMPTY, make

from pubqueue.model import changes as c


class StoreContract(
    OfNodes,
    OfNames,
    OfCrowds,
    OfPlainNodes,
    OfSeveral,
    OfSubscriptions,
    OfItems,
    OfContents,
    OfDone,
    OfTime,
    OfWaits,
    OfGroups,
    OfAlerts,
    OfBatches,
    OfStaging,
    OfCommits,
    OfSlices,
    OfHistory,
    OfSchedules,
    OfRegistrations,
    OfSamples,
):
    """Inherit it, and give a fixture `make_store`, of which every call is a store."""

    @pytest.fixture
    async def store(self, make_store):
        store = make_store()
        await store.open()
        await make(store, c.CreateNode(EMPTY))
        try:
            yield store
            assert await store.batch(recount) == []
        finally:
            await store.close()


class SharedStoreContract(StoreContract, OfSharing, OfInstances):
    """Every call of `make_store` is a store at one and the same place, which outlives them all."""
