"""The budget of bytes that are kept for clients: who has the most gives up what it began first, and others keep what they have."""

from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.listener.budget import SMALL, Budget


class Sender:
    """Keeps bytes until it has to give them up."""

    def __init__(self):
        self.has_given_up = False

    def give_up(self):
        self.has_given_up = True


def ended(*senders):
    return [one.has_given_up for one in senders]


def test_of_one_owner_the_oldest_gives_up_first():
    budget = Budget(10 * SMALL)
    first, second, third = Sender(), Sender(), Sender()
    budget.note(first, "eve", 5 * SMALL)
    budget.note(second, "eve", 5 * SMALL)
    budget.note(third, "eve", 2 * SMALL)
    assert ended(first, second, third) == [True, False, False]
    assert budget.size == budget.of("eve") == 7 * SMALL
    budget.note(second, "eve", 6 * SMALL)
    budget.note(third, "eve", 5 * SMALL)
    assert ended(second, third) == [True, False]
    assert budget.size == 5 * SMALL


def test_who_has_begun_something_else_comes_last():
    budget = Budget(10 * SMALL)
    first, second, third = Sender(), Sender(), Sender()
    for one in (first, second, first, third):
        budget.note(one, "eve", 4 * SMALL, is_new=True)
    assert ended(first, second, third) == [False, True, False]


def test_the_owner_with_most_gives_up_however_late_it_began():
    budget = Budget(10 * SMALL)
    ann, eve, bob = Sender(), [Sender() for _ in range(9)], Sender()
    budget.note(ann, "ann", 2 * SMALL)
    for one in eve:
        budget.note(one, "eve", 2 * SMALL)
    budget.note(bob, "bob", 2 * SMALL)
    assert ended(ann, bob, *eve) == [False, False, *[True] * 6, *[False] * 3]


def test_what_a_stranger_has_sent_is_its_own_once_it_is_known():
    budget = Budget(10 * SMALL)
    one = Sender()
    budget.note(one, "", 2 * SMALL)
    budget.note(one, "ann", 4 * SMALL)
    assert (budget.of(""), budget.of("ann"), budget.size) == (0, 4 * SMALL, 4 * SMALL)


def test_strangers_have_a_part_of_it_even_if_nobody_else_needs_the_rest():
    budget = Budget(20 * SMALL)
    first, second = Sender(), Sender()
    budget.note(first, "", 6 * SMALL)
    budget.note(second, "", 4 * SMALL)
    assert ended(first, second) == [False, False]
    budget.note(second, "", 5 * SMALL)
    assert ended(first, second) == [True, False]
    assert budget.size == 5 * SMALL


def test_there_is_room_for_a_share_of_an_owner_or_for_one_message_of_any_size():
    budget = Budget(30 * SMALL)
    one = Sender()
    assert budget.has_room("ann", 20 * SMALL)
    budget.note(one, "ann", 6 * SMALL)
    assert budget.has_room("ann", 4 * SMALL)
    assert not budget.has_room("ann", 4 * SMALL + 1)
    assert budget.has_room("bob", 20 * SMALL)


def test_small_ones_and_what_is_forgotten_are_not_counted():
    budget = Budget(4 * SMALL)
    many = [Sender() for _ in range(100)]
    for one in many:
        budget.note(one, "eve", SMALL)
        budget.note(one, "eve", 3 * SMALL)
        budget.note(one, "eve", SMALL)
    assert budget.size == 0
    for one in many:
        budget.note(one, "eve", 3 * SMALL)
        budget.forget(one)
        budget.forget(one)
    assert budget.size == 0
    assert not any(ended(*many))


NOTES = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["", "ann", "eve"]), st.integers(0, 12 * SMALL)),
    max_size=60,
)


@given(NOTES)
def test_the_sum_is_exact_and_bounded_and_whoever_has_least_never_gives_up(notes):
    most = 12 * SMALL
    budget = Budget(most)
    senders = [Sender() for _ in range(10)]
    kept = {}
    for number, owner, size in notes:
        before = {name: budget.of(name) for name in ("", "ann", "eve")}
        for one in senders:
            one.has_given_up = False
        budget.note(senders[number], owner, size)
        kept[number] = (owner, size if size > SMALL else 0)
        for other, one in enumerate(senders):
            if one.has_given_up:
                whose = kept.pop(other)[0]
                fair = most // 3
                assert before[whose] > fair or whose == owner
                assert before[whose] + size > fair
        for name in ("", "ann", "eve"):
            assert budget.of(name) == sum(size for whose, size in kept.values() if whose == name)
        assert budget.size == sum(size for _, size in kept.values()) <= most
        strangers = [whose for whose, size in kept.values() if size and whose == ""]
        assert budget.of("") <= most // 2 or len(strangers) == 1
