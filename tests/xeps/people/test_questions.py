"""What can be asked, and what people read."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.people import questions
from pubqueue_xeps.people.questions import (
    MAX_PEOPLE,
    Answer,
    Asked,
    Carry,
    Question,
    Round,
    Target,
    check,
    choice_of,
    code,
    message_id,
    round_of,
)
from pubqueue_xeps.wire.refusals import Reject
from pubqueue_xeps.wire.waits import as_json

ID = "0123456789abcdef0123"
SHIP = Question("Ship order 17?", details={"customer": "ACME", "amount": 900, "tags": ["a", "b"]})


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (Question(" "), "the question is empty"),
        (Question("x" * 4001), "the question is longer than 4000 characters"),
        (Question("x", ("yes",)), "a question has 2 to 9 choices, and this has 1"),
        (Question("x", tuple("abcdefghij")), "a question has 2 to 9 choices, and this has 10"),
        (Question("x", ("yes", " ")), "a choice is empty, or longer than 80 characters"),
        (Question("x", ("yes", "!")), "a choice is empty, or longer than 80 characters"),
        (Question("x", ("yes", "n" * 81)), "a choice is empty, or longer than 80 characters"),
        (Question("x", ("yes", "2.")), "a choice is a number, and choices are numbered"),
        (Question("x", ("Yes", "yes!")), "two choices are the same"),
        (
            Question("x", details={str(n): n for n in range(41)}),
            "the question has more than 40 details",
        ),
        (
            Question("x", signal=Target("orders", "o1")),
            "the answer would go to a node that this bot may not signal (--signal)",
        ),
    ],
)
def test_what_cannot_be_asked_is_rejected_with_a_reason_that_repeats_none_of_it(question, reason):
    with pytest.raises(Reject) as error:
        check(question, frozenset({"invoices"}))
    assert error.value.outcome.reason == reason


def test_a_question_may_be_put_and_may_signal_where_the_bot_may():
    check(SHIP, frozenset())
    check(Question("x", signal=Target("orders", "o1")), frozenset({"orders"}))


def test_the_text_has_all_that_a_person_needs():
    lines = questions.text(SHIP, code(ID), "approvals").splitlines()
    assert lines == [
        f"Question {code(ID)} (approvals):",
        "Ship order 17?",
        "customer: ACME",
        "amount: 900",
        'tags: ["a","b"]',
        "1) approve",
        "2) refuse",
        (
            'Answer with a number or a word. For a reason, write it behind a colon, such as "refuse: too early".'
            f' With several questions open, begin with its name: "{code(ID)} 1".'
        ),
    ]


def test_a_publisher_cannot_make_a_text_be_read_as_another():
    """Neither by marks that turn the direction, nor by controls, nor by a choice over two lines."""
    asked = Question("pay \u202e0001\x07", ("approve\n2) refuse", "no"), {"a\nb": "c\r\nd"})
    text = questions.text(asked, "qabcd", "n")
    assert not set("\u202e\x07\r") & set(text)
    assert "1) approve 2) refuse\n2) no" in text
    assert "a b: c d" in text


def test_a_name_is_short_and_of_the_question():
    assert code(ID) == code(ID)
    assert code(ID) != code("f" * 20)
    assert len(code(ID)) == 5
    assert round_of(message_id(ID, 0)) == round_of(message_id(ID, "c1")) == ID
    assert choice_of(message_id(ID, "c1")) == 1
    assert choice_of(message_id(ID, "c12")) is None


@given(st.text(max_size=60))
def test_no_other_name_is_taken_for_one_of_ours(name):
    found = round_of(name)
    assert found == "" or (len(found) == 20 and name.startswith(f"{found}."))
    assert choice_of(name) in (None, *range(10))


def test_what_an_item_carries_fits_for_all_who_can_be_asked():
    long = "a" * 60
    before = tuple(Asked(ID, (f"{long}{n}@example.org",), 1e9, 1e9) for n in range(MAX_PEOPLE))
    carry = Carry(f"{long}@example.org", Round(ID, (f"{long}@example.org",), 1e9, 1e9, 1e5), before)
    assert msgspec.convert(msgspec.json.decode(as_json(carry, "carry")), Carry) == carry


def test_those_who_were_asked_are_told_how_it_ended():
    answer = Answer(ID, 1, "anna@example.org", 0.0)
    assert questions.done(SHIP, "qabcd", 1) == "Done: refuse (qabcd)."
    told = questions.done_by(SHIP, "qabcd", answer)
    assert told == "Question qabcd is answered by anna@example.org: refuse. Nothing is left to do."
