"""Several subscriptions of a JID: creation, ids, and notices (XEP-0060 6.1.6, 6.2, 6.3, 8.8, 12.5)."""

import pytest
from harness.batches.facts import ANN, BOSS, FLEETING, JOBS, NOW, after, plain, who, window
from msgspec.structs import replace

from pubqueue.model.changes import AddAnother, AddSubscription, EndSubscription, SetTerms
from pubqueue.model.decision import Done, Refusal, Retrieved, SubscriptionEntry
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Item,
    ItemId,
    Jid,
    SendLast,
    State,
    SubscriptionState,
    Terms,
)
from pubqueue.model.notices import (
    NOBODY,
    Announce,
    Purged,
    Retracted,
    Several,
    SubscriptionChanged,
    ToEach,
    to_each,
)
from pubqueue.model.replies import WHOLE
from pubqueue.model.several_subscriptions import MAX_OF_JID, apart, terms_of, together
from pubqueue.rules.expire import Expire, ExpireFacts, expire
from pubqueue.rules.presence import Leave, LeaveFacts, leave
from pubqueue.rules.retrieve import Retrieve, RetrieveFacts, retrieve
from pubqueue.rules.subscribe import (
    Lease,
    Options,
    SetOptions,
    Subscribe,
    SubscribeFacts,
    Unsubscribe,
    set_options,
    subscribe,
    unsubscribe,
)
from pubqueue.rules.subscribers import (
    Named,
    SetSubscriptions,
    SubscribersFacts,
    Wish,
    set_subscriptions,
)

OPEN = plain(multi_subscribe=True)
ONE = replace(window(ANN), subid="one")
TWO = together(ONE, (*terms_of(ONE), Terms("two", deliver=False)))
NONE = SubscriptionState.NONE


def facts(subscription=ONE, node=OPEN, **known):
    return SubscribeFacts(NOW, node, Affiliation.NONE, subscription, **known)


def join(subscription=ONE, options=None, *, node=OPEN, **known):
    asked = Subscribe(who(ANN), JOBS, ANN, "new", options)
    return subscribe(asked, facts(subscription, node, **known))


def refusal(decision):
    assert decision.changes == decision.notices == ()
    return decision.reply.refusal


class TestOneMore:
    def test_the_first_is_a_subscription_like_any_other(self):
        (added,) = join(None).changes
        assert added == AddSubscription(replace(ONE, subid="new", queue_requests=1))

    @pytest.mark.parametrize("row", [ONE, TWO], ids=["of one", "of two"])
    def test_each_subscribe_makes_one_more_with_options_of_its_own(self, row):
        options = Options(deliver=False, lease=Lease(after(50)))
        decision = join(row, options)
        (added,) = decision.changes
        assert added == AddAnother(
            JOBS, ANN, Terms("new", deliver=False, expire=after(50), remind=after(45))
        )
        assert decision.reply.subscription.subid == "new"
        assert decision.reply.configured

    @pytest.mark.parametrize("row", [ONE, TWO], ids=["of one", "of two"])
    def test_where_the_node_does_not_allow_it_the_oldest_is_returned(self, row):
        decision = join(row, node=plain())
        assert (decision.changes, decision.reply.subscription.subid) == ((), "one")
        changed = join(row, Options(deliver=False), node=plain())
        terms = {"deliver": False, "expire": None, "remind": None, "temporary": False}
        subid = "one" if row.several else None
        assert changed.changes == (SetTerms(JOBS, ANN, **terms, subid=subid),)

    def test_one_that_waits_for_an_owner_waits_alone(self):
        waits = replace(ONE, state=SubscriptionState.PENDING, available=False)
        node = plain(multi_subscribe=True, access_model=AccessModel.AUTHORIZE)
        assert refusal(join(waits, node=node)) is Refusal.PENDING_SUBSCRIPTION
        (added,) = join(ONE, node=node).changes  # an owner has approved the JID
        assert added == AddAnother(JOBS, ANN, Terms("new"))

    def test_subscriptions_of_a_jid_are_counted_and_limited(self):
        full = join(of_account=5, most=5)
        assert (refusal(full), full.reply.limit) == (Refusal.TOO_MANY_SUBSCRIPTIONS, 5)
        many = together(ONE, tuple(Terms(str(number)) for number in range(MAX_OF_JID)))
        over = join(many, of_account=MAX_OF_JID)
        assert refusal(over) is Refusal.TOO_MANY_SUBSCRIPTIONS
        assert over.reply.reason == "a JID has at most 50 subscriptions to a node"

    def test_owners_are_notified_and_the_last_item_is_sent_once(self):
        node = plain(
            multi_subscribe=True, notify_sub=True, send_last_published_item=SendLast.ON_SUB
        )
        item = Item(7, JOBS, ItemId("i7"), State.QUEUED, Jid("etl@x"), NOW)
        owner = Jid("boss@x")
        reported, news = join(node=node, owners=(owner,), last=(item, b"<a/>")).notices
        stands = SubscriptionState.SUBSCRIBED
        assert reported == SubscriptionChanged(owner, JOBS, stands, "new", about=ANN)
        assert (news.to, news.subids) == ((ANN,), {ANN: ("new",)})


# row, subid -> what is said against it, None if nothing is
NAMING = [
    (ONE, None, None),
    (ONE, "one", None),
    (ONE, "two", Refusal.INVALID_SUBID),
    (TWO, None, Refusal.SUBID_REQUIRED),
    (TWO, "one", None),
    (TWO, "two", None),
    (TWO, "no such", Refusal.INVALID_SUBID),
]


@pytest.mark.parametrize(("row", "subid", "no"), NAMING)
class TestNaming:
    """XEP-0060 6.2.3.1, 6.2.3.5, 6.3.4.4, 6.3.4.5, 6.5.9.1, 6.5.9.2."""

    def test_unsubscribe(self, row, subid, no):
        decision = unsubscribe(Unsubscribe(who(ANN), JOBS, ANN, subid), facts(row))
        if no is not None:
            assert refusal(decision) is no
        else:
            named = subid if row.several else None
            assert decision.changes == (EndSubscription(JOBS, ANN, named),)
            assert decision.reply.subscription.subid == (subid or row.subid)

    def test_options(self, row, subid, no):
        asked = SetOptions(who(ANN), JOBS, ANN, subid, None)
        decision = set_options(asked, facts(row))
        if no is not None:
            assert refusal(decision) is no
        else:
            assert decision.reply.subscription.subid == (subid or "one")
            assert decision.reply.subscription.deliver == (subid != "two")

    def test_items(self, row, subid, no):
        known = RetrieveFacts(OPEN, Affiliation.NONE, True, (), WHOLE, mine=(row,))  # noqa: FBT003
        decision = retrieve(Retrieve(who(ANN), JOBS, subid=subid), known)
        if no is not None:
            assert refusal(decision) is no
        else:
            assert decision.reply == Retrieved(OPEN, ())


def test_items_are_asked_for_by_a_subscription_of_either_address():
    other = replace(window("ann@x"), subid="bare")
    known = RetrieveFacts(OPEN, Affiliation.NONE, True, (), WHOLE, mine=(TWO, other))  # noqa: FBT003
    reply = retrieve(Retrieve(who(ANN), JOBS, subid="bare"), known).reply
    assert isinstance(reply, Retrieved)
    strangers = replace(known, mine=())
    assert isinstance(retrieve(Retrieve(who(ANN), JOBS, subid="x"), strangers).reply, Retrieved)


def test_options_are_set_of_the_one_that_is_named():
    asked = SetOptions(who(ANN), JOBS, ANN, "two", Options(deliver=True))
    decision = set_options(asked, facts(TWO))
    terms = {"deliver": True, "expire": None, "remind": None, "temporary": False}
    assert decision.changes == (SetTerms(JOBS, ANN, **terms, subid="two"),)


class TestOwners:
    """XEP-0060 8.8.2."""

    def wish(self, *wishes, row=TWO):
        asked = tuple(Wish(ANN, state, subid, "new") for state, subid in wishes)
        known = tuple(Named(row, Affiliation.NONE) for _ in asked)
        request = SetSubscriptions(who(BOSS), JOBS, asked)
        return set_subscriptions(request, SubscribersFacts(OPEN, Affiliation.OWNER, named=known))

    def test_one_is_ended_by_its_id(self):
        decision = self.wish(("none", "two"))
        assert decision.reply == Done()
        assert decision.changes == (EndSubscription(JOBS, ANN, "two"),)
        assert decision.notices == (SubscriptionChanged(ANN, JOBS, NONE, "two"),)

    def test_all_are_ended_where_none_is_named_each_with_a_word_to_its_jid(self):
        decision = self.wish(("none", None))
        assert decision.changes == (EndSubscription(JOBS, ANN),)
        assert [reported.subid for reported in decision.notices] == ["one", "two"]

    def test_a_jid_may_be_named_once_for_each(self):
        decision = self.wish(("none", "one"), ("none", "two"))
        assert [change.subid for change in decision.changes] == ["one", "two"]
        assert self.wish(("none", "one"), ("subscribed", "two")).reply == Done()

    @pytest.mark.parametrize(
        ("wishes", "words"),
        [
            ([("none", "one"), ("none", None)], "a JID is named twice, without the subid of each"),
            ([("none", "one"), ("none", "one")], "a subscription is named twice"),
        ],
    )
    def test_a_repeated_subid_is_refused(self, wishes, words):
        decision = self.wish(*wishes)
        assert (refusal(decision), decision.reply.reason) == (Refusal.BAD_REQUEST, words)

    def test_a_refused_change_shows_the_current_subscription(self):
        stands = SubscriptionState.SUBSCRIBED
        (entry,) = self.wish(("none", "no such")).reply.standing
        assert entry == SubscriptionEntry(ANN, stands, "one")
        pending = self.wish(("pending", None)).reply.standing
        assert [one.subid for one in pending] == ["one", "two"]


class TestEnds:
    def test_each_lease_is_announced_and_ends_by_itself(self):
        over = Terms("over", expire=NOW)
        soon = Terms("soon", expire=after(9), remind=NOW)
        row = together(ONE, (*terms_of(ONE), over, soon))
        decision = expire(Expire(), ExpireFacts(NOW, (), (), (), leases=(row,)))
        terms = {"deliver": True, "expire": after(9), "remind": None, "temporary": False}
        assert EndSubscription(JOBS, ANN, "over") in decision.changes
        assert SetTerms(JOBS, ANN, **terms, subid="soon") in decision.changes
        gone, announced = decision.notices
        assert (gone.state, gone.subid) == (NONE, "over")
        assert (announced.subid, announced.expiry) == ("soon", after(9))

    def away(self, row, node=OPEN):
        known = LeaveFacts(NOW, (), ((row, node),), is_here=False, is_last=False)
        return leave(Leave(ANN), known).changes

    def test_a_leaving_subscriber_loses_temporary_subscriptions(self):
        row = together(ONE, (*terms_of(ONE), Terms("two", temporary=True)))
        assert self.away(row) == (EndSubscription(JOBS, ANN, "two"),)
        assert self.away(row, plain(tempsub=True)) == (EndSubscription(JOBS, ANN),)
        both = together(row, tuple(replace(terms, temporary=True) for terms in row.several))
        assert self.away(both) == (EndSubscription(JOBS, ANN),)


class TestNotifying:
    """XEP-0060 7.1.2.4, 7.2.2.2, 12.16."""

    HEARD = Several((ANN, BOSS), {ANN: ("one", "two")})

    @pytest.mark.parametrize(
        "what",
        [Announce(NOBODY, JOBS, None, None), Retracted(NOBODY, JOBS, (ItemId("i1"),))],
        ids=["item", "retract"],
    )
    def test_a_jid_gets_one_notice_with_the_ids_of_its_subscriptions(self, what):
        (news,) = to_each(self.HEARD, what, fleeting=FLEETING)
        assert news == ToEach((ANN, BOSS), what, FLEETING, self.HEARD.subids)
        ann, boss = news.notices()
        assert (ann.to, ann.subids) == (ANN, ("one", "two"))
        assert boss == replace(what, to=BOSS)

    def test_notices_about_the_node_have_no_subscription_ids(self):
        (news,) = to_each(self.HEARD, Purged(NOBODY, JOBS))
        assert news == ToEach((ANN, BOSS), Purged(NOBODY, JOBS))

    def test_no_notice_goes_to_no_subscriber(self):
        assert to_each(Several((), {}), Purged(NOBODY, JOBS)) == ()


def test_apart_they_are_what_their_owner_sees():
    assert [(one.subid, one.deliver) for one in apart(TWO)] == [("one", True), ("two", False)]
