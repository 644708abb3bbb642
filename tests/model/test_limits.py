"""The table of limits: every bound of every budget, and the other limits of an account."""

from msgspec import structs

from pubqueue.model import limits as budgets
from pubqueue.model.limits import BUDGETS, Unit, Whose, by_whose, limits
from pubqueue.model.records import Quota
from pubqueue.model.transactions import Limits

STAGED = Limits(items_per_account=7, bytes_per_account=8, items=70, bytes=80, apps_per_account=6)
QUOTA = Quota(nodes=3, items=4, bytes=5)


def mosts(whose):
    return {limit.what: limit.most for limit in by_whose(limits(STAGED, 9, QUOTA))[whose]}


def test_the_limits_of_an_account():
    assert mosts(Whose.ACCOUNT) == {
        "requests in progress": 2048,
        "bytes in progress": 3 << 20,
        "items in progress": 8192,
        "reads in progress": 64,
        "processor time of refused requests": 0.15,
        "subscriptions": 9,
        "items that wait for a commit": 7,
        "bytes that wait for a commit": 8,
        "apps of transactions": 6,
        "nodes that it has created": 3,
        "items in these": 4,
        "bytes in these": 5,
    }


def test_a_quota_of_0_is_no_limit():
    found = {limit.what for limit in limits(STAGED, 9, Quota(nodes=0, items=4, bytes=0))}
    assert "items in these" in found
    assert not {"nodes that it has created", "bytes in these"} & found


def test_the_limits_of_all_accounts_together():
    assert mosts(Whose.EVERYBODY)["items that wait for a commit"] == 70
    assert "processor time of refused requests" not in mosts(Whose.EVERYBODY), "of nobody"


def test_no_bound_of_a_budget_is_left_out():
    """`recovered` is how fast the time of refused requests is forgiven, and not a bound."""
    for whose, budget in BUDGETS:
        reported = list(mosts(whose).values())
        bounds = structs.asdict(budget)
        bounds.pop("recovered")
        assert [bound for bound in bounds.values() if bound and bound not in reported] == []
    mine = {one for one in vars(budgets).values() if isinstance(one, budgets.Budget)}
    assert mine == {budget for _, budget in BUDGETS}


def test_numbers_have_units():
    units = {limit.what: limit.unit for limit in limits(STAGED, 9, QUOTA)}
    assert {what for what, unit in units.items() if unit is Unit.BYTES} == {
        "bytes in progress",
        "bytes that wait for a commit",
        "bytes in these",
    }
