"""Answers on one stream: an answer that servers would not relay is a refusal."""

import pytest

from pubqueue.faces.xmpp.link import Answers
from pubqueue.faces.xmpp.xml.stanza import MAX_ANSWER_BYTES

EMPTY = len(b'<iq type="result" id="a"></iq>')


class Asked:
    address = b' id="a"'

    def echo(self):
        return b"<asked/>"


@pytest.fixture
def sent():
    return []


@pytest.fixture
def answers(sent):
    return Answers(lambda text, size: sent.append((text, size)))


def test_an_answer_is_sent_as_long_as_servers_relay_it(answers, sent):
    inner = b"x" * (MAX_ANSWER_BYTES - EMPTY)
    assert answers.answer(Asked(), inner) == MAX_ANSWER_BYTES
    assert sent == [(b'<iq type="result" id="a">' + inner + b"</iq>", MAX_ANSWER_BYTES)]


def test_a_larger_one_is_a_refusal_that_asks_for_no_other_try(answers, sent):
    answers.answer(Asked(), b"x" * (MAX_ANSWER_BYTES - EMPTY + 1))
    ((text, size),) = sent
    assert text.startswith(b'<iq type="error" id="a"><asked/><error type="modify"')
    assert (b"<resource-constraint" in text, size) == (True, len(text))


def test_an_empty_answer_has_no_child(answers, sent):
    answers.answer(Asked(), b"")
    assert [text for text, _ in sent] == [b'<iq type="result" id="a"/>']
