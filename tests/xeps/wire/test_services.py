"""Which service an item goes to: the same for ever, in equal shares, and with the least movement when the list changes."""

import hashlib
import pickle
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.client.publications import placed
from pubqueue_xeps.wire.joins import Join
from pubqueue_xeps.wire.publication import NewItem
from pubqueue_xeps.wire.services import MAX_SERVICES, Services, read_services, score

A, B, C, D = (f"queue-{letter}.example.org" for letter in "abcd")
NAMES = st.lists(
    st.text("abcdefghij-.", min_size=1, max_size=20), min_size=1, max_size=8, unique=True
)
KEYS = st.text(max_size=40)
MANY = [f"order-{number}" for number in range(4000)]

# as any other language has to compute them: key, services, the one that gets it, the numbers of the first two
VECTORS = [
    ("order-1", (A, B), A, "d67d575dc5231c2a", "6d1395f88d31075f"),
    ("order-2", (A, B), B, "ad1ad846d18cb5fb", "e062af26f25f3ac2"),
    ("order-1", (A, B, C, D), A, "d67d575dc5231c2a", "6d1395f88d31075f"),
    ("order-3", (A, B, C, D), C, "60a5e104e898529e", "4d652618799736ce"),
    ("ü", (A, B), B, "359c55b559425cbb", "5e3ce102f02d68ca"),
]


@pytest.mark.parametrize(("key", "names", "place", "first", "second"), VECTORS)
def test_a_key_goes_where_it_has_always_gone(key, names, place, first, second):
    assert Services(names).place(key) == Services(names).place(key.encode()) == place
    found = [score(name, key.encode()).hex() for name in names[:2]]
    assert found == [first, second]
    plainly = [hashlib.sha256(f"{one}\0{key}".encode()).hexdigest()[:16] for one in names[:2]]
    assert found == plainly


@given(NAMES, KEYS)
def test_the_order_of_the_list_does_not_matter(names, key):
    assert Services(tuple(names)).place(key) == Services(tuple(reversed(names))).place(key)


@given(NAMES, st.text("klm", min_size=1, max_size=5), st.lists(KEYS, max_size=20))
def test_one_service_more_takes_its_share_and_moves_nothing_else(names, more, keys):
    before, after = Services(tuple(names)), Services((*names, more))
    for key in keys:
        assert after.place(key) in {before.place(key), more}


@pytest.mark.parametrize("names", [(A, B), (A, B, C), (A, B, C, D)])
def test_the_shares_are_equal(names):
    found = Counter(map(Services(names).place, MANY))
    fair = len(MANY) / len(names)
    # four standard deviations, of keys that never change
    assert all(abs(count - fair) < 4 * fair**0.5 for count in found.values()), found


def test_one_service_more_moves_only_its_share():
    before, after = Services((A, B, C)), Services((A, B, C, D))
    moved = sum(before.place(key) != after.place(key) for key in MANY)
    assert 0.22 * len(MANY) < moved < 0.28 * len(MANY)


@given(KEYS)
def test_a_draining_service_gets_nothing_and_no_other_key_moves(key):
    full, draining = Services((A, B, C)), read_services([A, B, f"{C}=draining"])
    assert C not in {draining.place(key), draining.place_of_new(key)}
    if full.place(key) != C:
        assert draining.place(key) == draining.place_of_new(key) == full.place(key)


@given(KEYS)
def test_a_joining_service_gets_only_what_nothing_holds_to_a_place(key):
    before, joining, after = (
        Services((A, B)),
        read_services([A, B, f"{C}=joining"]),
        Services((A, B, C)),
    )
    assert joining.place(key) == before.place(key)
    assert joining.place_of_new(key) == after.place(key)


def test_an_item_is_placed_by_its_group_then_by_its_id():
    services = Services((A, B))
    by_group = {placed(services, NewItem(payload=1, id=name, group="g"))[0] for name in MANY[:50]}
    assert by_group == {services.place("g")}
    assert placed(services, NewItem(payload=1, id="order-2")) == (
        B,
        NewItem(payload=1, id="order-2"),
    )


def test_an_item_without_an_id_gets_the_one_that_it_is_placed_by():
    joining = read_services([A, f"{B}=joining"])
    places = Counter()
    for _ in range(200):
        service, new = placed(joining, NewItem(payload=1))
        assert service == joining.place_of_new(new.id)
        places[service] += 1
    assert set(places) == {A, B}


def test_a_join_and_its_members_are_at_the_service_of_its_id():
    services = Services((A, B))
    for name in MANY[:50]:
        at = services.place(name)
        assert placed(services, NewItem(payload=1, id=name, join=True))[0] == at
        for member in (NewItem(payload=1, id="order-2"), NewItem(payload=1)):
            assert placed(services, replace(member, joins=Join("jobs", name)))[0] == at
    service, new = placed(services, NewItem(payload=1, join=True))
    assert service == services.place(new.id)


@pytest.mark.parametrize(
    "whole",
    [
        {"join": True, "group": "g"},
        {"joins": Join("jobs", "all"), "group": "g"},
        {"join": True, "joins": Join("jobs", "all")},
    ],
)
def test_what_would_be_at_two_services_is_refused(whole):
    with pytest.raises(ValueError, match="Among several services"):
        placed(Services((A, B)), NewItem(payload=1, **whole))
    assert placed(Services((A,)), NewItem(payload=1, **whole))[0] == A


def test_with_one_service_an_item_stays_as_it_is():
    new = NewItem(payload=1)
    assert placed(Services((A,)), new) == (A, new)
    assert placed(Services((A,)), new)[1] is new


@pytest.mark.parametrize("wrong", [{"group": ""}, {"id": ""}, {"id": 7}, {"group": "a\x00"}])
def test_an_invalid_key_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        placed(Services((A, B)), NewItem(payload=1, **wrong))


def test_a_list_is_read_from_one_text_or_several_and_written_the_same():
    texts = [f"{A}, {B}=draining", f"{C}=joining"]
    services = read_services(texts)
    assert (services.settled, services.taking) == ((A,), (A, C))
    assert read_services([str(services)]) == services
    assert pickle.loads(pickle.dumps(services)) == services


def test_a_list_is_bounded():
    names = [f"q{number}" for number in range(MAX_SERVICES + 1)]
    with pytest.raises(ValueError, match="65 services; it takes up to 64"):
        read_services(names)
    assert read_services(names[:-1]).first == "q0"
