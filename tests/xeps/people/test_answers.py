"""What a message means: the table of all forms of an answer, and what can never be one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.people.answers import (
    Chosen,
    Heard,
    Idle,
    Nothing,
    Open,
    Over,
    Unclear,
    Which,
    choice_in,
    understand,
)
from pubqueue_xeps.people.questions import code, message_id

ANNA, BOB, EVE, ROOM = "anna@a.example", "bob@b.example", "eve@e.example", "room:team@rooms.example"
PEOPLE = frozenset({ANNA, BOB, ROOM})
A, B, C = "a" * 20, "b" * 20, "c" * 20
YES_NO = ("approve", "refuse")


def opened(name=A, to=(ANNA,), choices=YES_NO, since=100.0, **more):
    return Open(id=name, to=to, choices=choices, since=since, **more)


def heard(sender=ANNA, at=200.0, **more):
    return Heard(sender=sender, at=at, **more)


def meaning(message, *known):
    return understand(message, known or (opened(),), PEOPLE)


FORM = {"question": A, "answer": "1", "reason": "too early"}


@pytest.mark.parametrize(
    ("message", "choice", "reason"),
    [
        ({"body": "1"}, 0, ""),
        ({"body": " 2. "}, 1, ""),
        ({"body": "02"}, 1, ""),
        ({"body": "Approve!"}, 0, ""),
        ({"body": "REFUSE"}, 1, ""),
        ({"body": "refuse: too early"}, 1, "too early"),
        ({"body": "2: too\nearly"}, 1, "too early"),
        ({"body": "2\ntoo early"}, 1, "too early"),
        ({"body": "\U0001f44d\U0001f3fd"}, 0, ""),
        ({"body": f"{code(A)} 2"}, 1, ""),
        ({"body": f"{code(A).upper()}: refuse: no"}, 1, "no"),
        ({"action": message_id(A, "c0")}, 0, ""),
        ({"action": message_id(A, "c1"), "body": "approve"}, 1, ""),
        ({"body": "2", "reply_to": message_id(A, 0)}, 1, ""),
        ({"body": "refuse", "reply_to": message_id(A, "r1")}, 1, ""),
        ({"reaction_to": message_id(A, 0), "reactions": ("\U0001f44d",)}, 0, ""),
        ({"reaction_to": message_id(A, 0), "reactions": ("❤️", "\U0001f44e\U0001f3ff")}, 1, ""),
        ({"form": FORM}, 1, "too early"),
    ],
)
def test_an_answer_has_many_forms(message, choice, reason):
    assert meaning(heard(**message)) == Chosen(A, choice, reason)


@pytest.mark.parametrize(
    "message",
    [
        {"body": "1 moment, please"},
        {"body": "3"},
        {"body": "0"},
        {"body": "approved"},
        {"body": "what is this?"},
        {"body": "1:", "reply_to": message_id(A, 0), "form": FORM | {"answer": "7"}},
        {"action": message_id(A, "c5")},
        {"action": message_id(A, "x")},
        {"reaction_to": message_id(A, 0), "reactions": ("\U0001f44d", "\U0001f44e")},
    ],
)
def test_what_is_none_of_the_choices_is_asked_back(message):
    assert meaning(heard(**message)) == Unclear(A)


@pytest.mark.parametrize(
    "message",
    [
        {"body": "  "},
        {"reaction_to": message_id(A, 0), "reactions": ()},
        {"reaction_to": message_id(A, 0), "reactions": ("\U0001f602",)},
        {"reaction_to": "another", "reactions": ("\U0001f44d",)},
        {"action": "another"},
        {"form": {"question": "another", "answer": "0"}},
    ],
)
def test_what_is_no_answer_is_left_alone(message):
    assert meaning(heard(**message)) == Nothing()


def test_a_text_never_answers_one_of_two_open_questions_unless_it_names_it():
    two = opened(A), opened(B)
    assert meaning(heard(body="1"), *two) == Which((A, B))
    assert meaning(heard(body="1", thread=A), *two) == Which((A, B))
    assert meaning(heard(body="1", reply_to="of others"), *two) == Which((A, B))
    assert meaning(heard(body=f"{code(B)} 1"), *two) == Chosen(B, 0)
    assert meaning(heard(body="1", reply_to=message_id(B, 0)), *two) == Chosen(B, 0)
    both = heard(body=f"{code(A)} 1", reply_to=message_id(B, 0))
    assert meaning(both, *two) == Which((A, B))


def test_a_text_that_may_be_about_another_question_is_asked_back():
    """It was typed before the question came, or right after another had ended, or in the thread of that one."""
    alone = opened(B, since=200.0)
    before = opened(A, ended=199.5)
    assert meaning(heard(body="1", at=199.0), alone) == Which((B,))
    assert meaning(heard(body="1", at=199.2, stamped=True), alone) == Chosen(B, 0)  # whole seconds
    assert meaning(heard(body="1", at=198.9, stamped=True), alone) == Which((B,))
    assert meaning(heard(body="1", at=201.0), before, alone) == Which((B,))
    assert meaning(heard(body="1", at=210.0, thread=A), before, alone) == Which((B,))
    assert meaning(heard(body="1", at=210.0), before, alone) == Chosen(B, 0)
    assert meaning(heard(body="1", at=201.0), opened(A, ended=100.0), alone) == Chosen(B, 0)
    on_its_way = opened(A, answered=True)
    assert meaning(heard(body="1", at=201.0), on_its_way, alone) == Which((B,))


def test_a_question_that_has_ended_is_said_to_be_over():
    ended = opened(A, ended=150.0)
    for message in (
        {"body": "1", "reply_to": message_id(A, 0)},
        {"body": f"{code(A)} 1"},
        {"action": message_id(A, "c0")},
        {"form": FORM},
        {"reaction_to": message_id(A, 0), "reactions": ("\U0001f44d",)},
    ):
        assert meaning(heard(**message), ended) == Over(code(A))
    assert meaning(heard(body="1"), ended) == Idle()
    assert meaning(heard(action=message_id(C, "c0")), ended) == Over(code(C))


EVERY_FORM = (
    {"body": "1"},
    {"body": f"{code(A)} 1"},
    {"body": "1", "reply_to": message_id(A, 0)},
    {"action": message_id(A, "c0")},
    {"form": FORM},
    {"reaction_to": message_id(A, 0), "reactions": ("\U0001f44d",)},
)


@pytest.mark.parametrize("message", EVERY_FORM)
def test_only_who_was_asked_answers_and_a_stranger_is_told_nothing(message):
    assert meaning(heard(EVE, **message)) == Nothing()
    said = meaning(heard(BOB, **message))  # who is asked too, but another question
    assert not isinstance(said, Chosen)
    assert said in (Nothing(), Idle(), Over(code(A)))


@pytest.mark.parametrize("message", EVERY_FORM)
def test_in_a_room_its_members_answer_what_the_room_was_asked(message):
    asked = opened(A, to=(ROOM,))
    assert isinstance(meaning(heard(EVE, room=ROOM, **message), asked), Chosen)
    assert meaning(heard(EVE, **message), asked) == Nothing()
    assert not isinstance(meaning(heard(ANNA, **message), asked), Chosen)


def test_in_a_room_talk_is_no_answer():
    asked = opened(A, to=(ROOM,))
    assert meaning(heard(room=ROOM, body="who has an idea?"), asked) == Nothing()
    assert meaning(heard(room=ROOM, body="1"), asked, opened(B, to=(ROOM,))) == Nothing()
    named = heard(room=ROOM, body=f"{code(A)} perhaps")
    assert meaning(named, asked) == Unclear(A)
    asked.aliases.add("given-by-the-room")
    assert meaning(heard(room=ROOM, body="2", reply_to="given-by-the-room"), asked) == Chosen(A, 1)


def test_more_than_two_choices_have_no_thumbs():
    three = opened(choices=("ship", "wait", "stop"))
    thumb = heard(reaction_to=message_id(A, 0), reactions=("\U0001f44d",))
    assert meaning(thumb, three) == Nothing()
    assert meaning(heard(body="\U0001f44d"), three) == Unclear(A)
    assert meaning(heard(body="stop"), three) == Chosen(A, 2)


def test_a_reason_is_bounded_and_on_one_line():
    said = meaning(heard(body="2: " + "no \u202e\x00 " * 1000))
    assert isinstance(said, Chosen)
    assert len(said.reason) == 900
    assert not set("\u202e\x00\n") & set(said.reason)


@given(st.text(max_size=40), st.lists(st.sampled_from((A, B)), max_size=2, unique=True))
def test_no_text_is_ever_taken_for_two_things(body, names):
    """With two open questions only a name chooses; with one, exactly the words of `choice_in`, up to a colon or a line's end."""
    known = [opened(one) for one in names]
    said = understand(heard(body=body), known, PEOPLE)
    if isinstance(said, Chosen):
        named = [one for one in names if code(one) in body.casefold()]
        assert named or len(names) == 1
        whole = choice_in(body, YES_NO)
        assert named or whole == said.choice or ":" in body or "\n" in body.strip()


@given(st.text(max_size=30))
def test_a_choice_is_a_word_or_a_number_and_nothing_that_begins_with_one(words):
    found = choice_in(words, YES_NO)
    if found is not None:
        stripped = words.casefold()
        known = (("1", "approve", "\U0001f44d"), ("2", "refuse", "\U0001f44e"))
        assert any(one in stripped for one in known[found])
        assert choice_in(f"{words} moment", YES_NO) is None
