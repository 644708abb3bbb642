"""An account reads its publish under a key, as long as it is remembered."""

import pytest

from pubqueue.model.decision import Decision, KeyUsed
from pubqueue.model.entities import ItemId, Jid, Millis, NodeName, Principal
from pubqueue.model.records import UsedKey
from pubqueue.rules.once import ReadUsedKey, UsedKeyFacts, read_used_key

JOBS, ETL = NodeName("jobs"), Jid("etl@x")
IDS = (ItemId("a"), ItemId("b"))
USED = UsedKey("m", ETL, b"c", Millis(100), 9, IDS, ())


@pytest.mark.parametrize(
    ("now", "used", "ids"), [(99, USED, IDS), (100, USED, None), (99, None, None)]
)
def test_a_used_key_is_known_until_it_expires(now, used, ids):
    request = ReadUsedKey(Principal(ETL), JOBS, "k")
    decision = read_used_key(request, UsedKeyFacts(Millis(now), used))
    assert decision == Decision(KeyUsed(JOBS, ids))
