"""What every store promises about alerts: rows by name with all that is in them, guarded by their moments, and pages of them."""

from __future__ import annotations

import pytest
from harness.batches.facts import NOW, after
from harness.stores.rows import needs_of, writes_of
from msgspec.structs import replace
from stores.steps import listed

from pubqueue.engine.listings import Alerts
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import ALERTS, WATCHES, Write
from pubqueue.model.records import Alert, AlertWatch

NEW = Alert("dead items:jobs", NOW)
FULL = Alert("old item:Jobs \N{EURO SIGN}/%", after(1), "it has waited ä", after(2), after(3))
WATCH = AlertWatch("alerts", "1", after(4))


async def write(store, kind, *pairs):
    writes = [Write(before, now) for before, now in pairs]
    await store.batch(lambda tx: tx.write(writes_of(NOW, **{kind: writes})))


async def there(store, *names):
    found = await store.batch(lambda tx: tx.load(needs_of(alerts=set(names))).of[ALERTS])
    return sorted(found, key=lambda row: row.name)


class OfAlerts:
    """Part of the contract."""

    async def test_an_alert_is_kept_with_all_that_is_in_it(self, store):
        await write(store, "alerts", (None, NEW), (None, FULL))
        assert await there(store, NEW.name, FULL.name, "none") == [NEW, FULL]
        over = replace(NEW, over=after(7), detail="none")
        await write(store, "alerts", (NEW, over), (FULL, None))
        assert await there(store, NEW.name, FULL.name) == [over]

    @pytest.mark.parametrize("field", ["since", "over", "reported"])
    async def test_an_alert_that_another_has_changed_is_not_overwritten(self, store, field):
        await write(store, "alerts", (None, NEW))
        believed = replace(NEW, **{field: after(9)})
        for now in (replace(NEW, detail="x"), None):
            with pytest.raises(StaleError):
                await write(store, "alerts", (believed, now))
        assert await there(store, NEW.name) == [NEW]

    async def test_alerts_are_listed_by_name_a_page_at_a_time(self, store):
        names = sorted(["B", "a", "é", "a/1", "a%"])
        await write(store, "alerts", *((None, replace(NEW, name=name)) for name in names))
        found, behind = [], ""
        while page := await listed(store, Alerts(), behind, 2):
            found += [row.name for row in page]
            behind = page[-1].name
        assert found == names

    async def test_the_watch_of_an_instance_is_guarded(self, store):
        await write(store, "alert_watches", (None, WATCH))
        taken = replace(WATCH, runner="2", until=after(99))
        for believed in (replace(WATCH, runner="3"), replace(WATCH, until=after(5))):
            with pytest.raises(StaleError):
                await write(store, "alert_watches", (believed, taken))
        await write(store, "alert_watches", (WATCH, taken))
        needs = needs_of(alert_watches={WATCH.name})
        assert await store.batch(lambda tx: tx.load(needs).of[WATCHES]) == [taken]
        await write(store, "alert_watches", (taken, None))
        assert await store.batch(lambda tx: tx.load(needs).of[WATCHES]) == []
