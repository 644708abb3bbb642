"""Definitions of nodes: what is not named has its default, and what is done makes a node as it is defined."""

import pytest
from harness.batches.facts import queue, who
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model.entities import Affiliation, Jid, NodeConfig, NodeName
from pubqueue.rules.definitions import (
    KIND,
    ROOM,
    STATES,
    Affiliating,
    Definition,
    DefinitionFacts,
    Known,
    ReadDefinitions,
    Setting,
    Steps,
    defaults,
    defined,
    ordered,
    read_definitions,
    steps,
    without_dead_letter_node,
)
from pubqueue.rules.nodeconfig import (
    OF_PLAIN_NODES,
    OF_QUEUES,
    SETTINGS,
    Settings,
    configure,
    written,
)
from pubqueue.rules.read import NodeAccess

JOBS = NodeName("jobs")
ANNA, BOB, EVE, ROOT = (Jid(f"{name}@x") for name in ("anna", "bob", "eve", "root"))
OWNER, PUBLISHER, ONLY, MEMBER, NONE, OUTCAST = Affiliation
QUEUE, PLAIN = {KIND: "1"}, {KIND: "0"}


def node(settings=(), people=(), name=JOBS):
    return Definition(name, {**QUEUE, **dict(settings)}, dict(people))


# fmt: off
TABLE = (
    ("nothing is different", node(), node(), (), ()),
    ("a setting", node({"lock_timeout": "60"}), node({"lock_timeout": "30"}), [("lock_timeout", "30", "60")], ()),
    ("a setting that is not named", node(), node({"title": "x"}), [("title", "x", "")], ()),
    ("only spaces around it", node({"title": "x"}), node({"title": " x "}), (), ()),
    ("a state that is not named", node(), node({"paused": "1"}), (), ()),
    ("a state that is named", node({"paused": "1"}), node(), [("paused", "0", "1")], ()),
    ("an account", node(people={ANNA: OWNER, BOB: MEMBER}), node(people={ANNA: OWNER}), (), [(BOB, NONE, MEMBER)]),
    ("another affiliation", node(people={ANNA: OWNER, BOB: ONLY}), node(people={ANNA: OWNER, BOB: OUTCAST}), (), [(BOB, OUTCAST, ONLY)]),
    ("an account that is not named", node(people={ANNA: OWNER}), node(people={ANNA: OWNER, BOB: MEMBER}), (), [(BOB, MEMBER, NONE)]),
    ("no owner is named", node(people={BOB: MEMBER}), node(people={ANNA: OWNER, EVE: MEMBER}), (), [(BOB, NONE, MEMBER), (EVE, MEMBER, NONE)]),
    ("an owner by another list", node(people={ANNA: MEMBER}), node(people={ANNA: OWNER}), (), [(ANNA, OWNER, MEMBER)]),
    ("new owners first, former ones last, and the own account after all",
     node(people={ANNA: OWNER, BOB: MEMBER}), node(people={ROOT: OWNER, EVE: OWNER, BOB: PUBLISHER}), (),
     [(ANNA, NONE, OWNER), (BOB, PUBLISHER, MEMBER), (EVE, OWNER, NONE), (ROOT, OWNER, NONE)]),
)
# fmt: on


@pytest.mark.parametrize(
    ("wanted", "there", "settings", "people"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_what_is_done(wanted, there, settings, people):
    found = steps(wanted, there, {"paused": "0", "publish_paused": "0"}, "root")
    assert found.settings == tuple(Setting(*one) for one in settings)
    assert found.affiliations == tuple(Affiliating(*one) for one in people)
    assert bool(found) is bool(settings or people)
    assert not found.creates


def test_a_node_that_is_not_there_is_created_with_all_of_it():
    wanted = node({"title": "Jobs"}, {BOB: MEMBER, ANNA: OWNER})
    granted = (Affiliating(ANNA, NONE, OWNER), Affiliating(BOB, NONE, MEMBER))
    made = Steps(
        JOBS,
        queueing=True,
        creates=True,
        settings=(Setting("title", "", "Jobs"),),
        affiliations=granted,
    )
    assert steps(wanted, None) == made
    assert steps(node(), None)


@pytest.mark.parametrize("model", ["open", "whitelist", "authorize"])
@pytest.mark.parametrize("turn", [(PLAIN, QUEUE), (QUEUE, PLAIN)])
def test_a_node_that_turns_into_the_other_kind_keeps_no_access_model_by_accident(model, turn):
    there, wanted = (Definition(JOBS, {**kind, "access_model": model}) for kind in turn)
    assert after(there, steps(wanted, there)) == canonical(wanted)


def test_a_definition_has_neither_defaults_nor_states():
    for queueing in (False, True):
        settings = defaults(queueing=queueing) | {
            "paused": "1",
            "publish_paused": "1",
            "title": "x",
        }
        found = defined(JOBS, settings, {ANNA: OWNER, EVE: NONE})
        assert found.settings == {KIND: str(int(queueing)), "title": "x"}
        assert found.affiliations == {ANNA: OWNER}


# What the service does with the steps, by its own rule about settings.


def config_of(one):
    config = configure(NodeConfig(), Settings(one.settings))
    assert isinstance(config, NodeConfig), config
    return config


def canonical(one):
    """Return the definition without what it names though it is the default."""
    return defined(one.node, written(config_of(one)), one.affiliations)


def after(there, found, by=ROOT):
    """Return the definition of the node after the steps; as a service, it never leaves a node without an owner that had one."""
    base, people = NodeConfig(), {}
    if there is None:
        people = {by: OWNER}
    else:
        base, people = config_of(there), dict(there.affiliations)
    changed = {one.name: one.after for one in found.settings}
    if found.creates:
        changed[KIND] = str(int(found.queueing))
    config = configure(base, Settings(changed))
    assert isinstance(config, NodeConfig), config
    had_owner = OWNER in people.values()
    for one in found.affiliations:
        assert people.get(one.jid, NONE) is one.before or found.creates
        people[one.jid] = one.after
        assert OWNER in people.values() or not had_owner
    return defined(found.node, written(config), people)


VALUES = {
    "title": ["", "x", "ü \\ \"'"],
    "labels": ["", "a=1", "a=1\nb=2"],
    "weights": ["", "=2\na=1"],
    "max_items": ["max", "7"],
    "item_expire": ["max", "60"],
    "lock_timeout": ["1", "60"],
    "done_ttl": ["", "9"],
    "done_max": ["", "9"],
    "dead_ttl": ["", "9"],
    "rate": ["", "0.5", "5"],
    "backoff_jitter": ["0", "0.25"],
    "access_model": ["open", "whitelist", "authorize"],
    "event_log": ["0", "1"],
    "paused": ["0", "1"],
    "notify_delete": ["0", "1"],
    "dead_letter_node": ["", "graves"],
}

SETTINGS_OF_ONE = st.fixed_dictionaries(
    {KIND: st.sampled_from(["0", "1"])},
    optional={name: st.sampled_from(values) for name, values in VALUES.items()},
)
PEOPLE = st.dictionaries(
    st.sampled_from([ANNA, BOB, EVE, ROOT]),
    st.sampled_from([OWNER, PUBLISHER, ONLY, MEMBER, OUTCAST]),
)


def definitions(people=PEOPLE):
    return st.builds(Definition, st.just(JOBS), SETTINGS_OF_ONE, people)


WITH_OWNER = PEOPLE.map(lambda people: {ANNA: OWNER} | people).filter(
    lambda people: OWNER in people.values()
)


@given(definitions())
def test_what_was_exported_changes_nothing_where_it_was_exported(there):
    exported = canonical(there)
    states = {name: text for name, text in written(config_of(there)).items() if name in STATES}
    assert not steps(exported, canonical(there), states)


@given(definitions(WITH_OWNER), st.none() | definitions(WITH_OWNER))
def test_after_the_steps_an_export_is_what_was_defined(wanted, there):
    wanted = canonical(wanted)
    there = None if there is None else canonical(there)
    made = after(there, steps(wanted, there, by=ROOT))
    if there is None:  # whoever creates a node owns it, and sees then what is left to do
        made = after(made, steps(wanted, made, by=ROOT))
    assert made == wanted
    assert not steps(wanted, made)


@given(definitions(), definitions(WITH_OWNER))
def test_a_half_done_node_is_completed_by_doing_it_again(wanted, there):
    wanted, there = canonical(wanted), canonical(there)
    found = steps(wanted, there)
    for many in range(len(found.affiliations) + 1):
        half = Steps(
            JOBS, found.queueing, settings=found.settings, affiliations=found.affiliations[:many]
        )
        whole = Steps(
            JOBS, found.queueing, settings=found.settings, affiliations=found.affiliations
        )
        halfway = after_unless_last(there, half)
        assert after_unless_last(halfway, steps(wanted, halfway)) == after_unless_last(there, whole)


def after_unless_last(there, found):
    """Return the definition after the steps; the service refuses those that would leave no owner."""
    people = dict(there.affiliations)
    kept = []
    for one in found.affiliations:
        if OWNER in (people | {one.jid: one.after}).values():
            people[one.jid] = one.after
            kept.append(one)
    return after(
        there, Steps(JOBS, found.queueing, settings=found.settings, affiliations=tuple(kept))
    )


NAMES = st.sampled_from([NodeName(name) for name in "abcdef"])


@given(st.dictionaries(NAMES, st.tuples(st.none() | NAMES, st.none() | NAMES)))
def test_a_node_comes_after_those_that_it_names_except_in_a_circle(names):
    found = [
        Definition(
            name,
            {KIND: "0"}
            if name in "ab"
            else {KIND: "1", "source": source or "", "dead_letter_node": place or ""},
        )
        for name, (source, place) in names.items()
    ]
    order = [one.node for one in ordered(found)]
    assert sorted(order) == sorted(names)
    refers = {
        one.node: {one.settings.get("source"), one.settings.get("dead_letter_node")} & names.keys()
        for one in found
    }

    def reaches(start, goal):
        seen, stack = set(), [start]
        while stack:
            for other in refers[stack.pop()] - seen:
                seen.add(other)
                stack.append(other)
        return goal in seen

    for name in order:
        for other in refers[name]:
            assert order.index(other) < order.index(name) or reaches(other, name)


def test_a_chain_of_ten_thousand_nodes_is_ordered():
    names = [NodeName(f"n{number}") for number in range(10_000)]
    found = [
        node({"dead_letter_node": after}, name=name)
        for name, after in zip(names, [*names[1:], ""], strict=True)
    ]
    assert [one.node for one in ordered(found)] == names[::-1]


def test_dead_letter_nodes_that_are_neither_defined_nor_there_are_named():
    found = [
        node({"dead_letter_node": "graves"}),
        node({"dead_letter_node": "old"}, name=NodeName("mail")),
        node({"dead_letter_node": "jobs"}, name=NodeName("more")),
        Definition(NodeName("plain"), {**PLAIN, "dead_letter_node": "none"}),
    ]
    assert list(without_dead_letter_node(found, ["old"])) == [("jobs", "graves")]


def test_every_setting_is_compared():
    for queueing in (False, True):
        fixed = OF_QUEUES if queueing else OF_PLAIN_NODES
        assert defaults(queueing=queueing).keys() == SETTINGS.keys()
        there = Definition(JOBS, {KIND: str(int(queueing))})
        for name in SETTINGS.keys() - {KIND, *fixed}:
            wanted = Definition(JOBS, {**there.settings, name: "another"})
            assert [one.name for one in steps(wanted, there).settings] == [name]


# Many definitions at once.


def known(name, people=(), **config):
    return Known(NodeAccess(queue(name=name, **config), OWNER), people)


def shown(*found, by=ANNA, more=False):
    facts = DefinitionFacts(found[0].access, found, more, found[-1].access.node.name)
    return read_definitions(ReadDefinitions(who(by)), facts).reply


@given(SETTINGS_OF_ONE, PEOPLE)
def test_a_definition_that_was_read_is_that_of_the_node(settings, people):
    config = config_of(Definition(JOBS, settings))
    access = NodeAccess(replace(queue(), config=config), OWNER)
    (one,) = shown(Known(access, tuple(people.items()))).entries
    assert one.whole
    found = defined(one.node, dict(one.settings), dict(one.affiliations))
    assert found == defined(JOBS, written(config), people)
    states = {name: text for name, text in one.settings if name in STATES}
    assert states == {name: "1" for name in STATES if settings.get(name) == "1"}


def test_an_answer_has_as_many_definitions_as_have_room():
    long = "x" * (ROOM // 3)
    page = shown(*(known(name, title=long) for name in "abcd"))
    assert ([one.node for one in page.entries], page.more, page.through) == (["a", "b"], True, "b")
    page = shown(*(known(name, title=2 * long) for name in "ab"))
    assert len(page.entries) == 1, "one has room, however long it is"
    page = shown(*(known(name) for name in "abcd"), more=True)
    assert (len(page.entries), page.more, page.through) == (4, True, "d")


def test_a_node_with_too_many_or_too_long_affiliations_is_shown_without_them():
    many = tuple((Jid(f"{'x' * 1000}{n}@x"), MEMBER) for n in range(ROOM // 1000 + 1))
    few = ((ANNA, OWNER),)
    page = shown(known("a", many), known("b", None), known("c", few))
    assert [(one.affiliations, one.whole) for one in page.entries] == [
        ((), False),
        ((), False),
        (few, True),
    ]
