"""`pubqueue people`: what operators type, and the sentences for what is wrong."""

import pytest
from click.testing import CliRunner

from pubqueue.cli import main

URL = "xmpp://people@localhost/queue.localhost?host=127.0.0.1&port=7&tls=off"
NAMES = ("--node", "approvals", "--ask", "anna@localhost")


def run(*words, password="hidden-word"):
    environment = {"PUBQUEUE_URL": URL, "PUBQUEUE_PASSWORD": password}
    return CliRunner().invoke(main, ["people", *words], env=environment)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*NAMES, "--url="), "the URL is not of the form xmpp://bot@example.org/"),
        ((*NAMES, "--url=ftp://x"), "the URL is not of the form xmpp://bot@example.org/"),
        ((*NAMES, "--url=http://x"), "the URL is an address over HTTP"),
        (("--ask", "anna@localhost"), "needs the name of a node: give node= or --node"),
        ((*NAMES, "--node", "approvals"), "the node 'approvals' is given more than once"),
        (("--node", "approvals"), "no one is to be asked: give ask= or rooms= (--ask, --room)"),
        ((*NAMES, "--ask", "anna@localhost"), "'anna@localhost' is given more than once"),
        ((*NAMES, "--ask", "Anna@LOCALHOST"), "'Anna@LOCALHOST' is given more than once"),
        ((*NAMES, "--ask", "bob"), "'bob' is not a bare JID, such as anna@example.org"),
        ((*NAMES, "--ask", "bob@localhost/desk"), "'bob@localhost/desk' is not a bare JID"),
        ((*NAMES, "--ask", "@"), "'@' is not a bare JID"),
        ((*NAMES, "--ask", ""), "'' is not a bare JID"),
        ((*NAMES, "--room", "rooms.localhost"), "'rooms.localhost' is not a bare JID"),
        ((*NAMES, "--room", "t@r", "--room", "t@r"), "'t@r' is given more than once"),
        ((*NAMES, *(f"--ask=p{n}@x" for n in range(100))), "a bot asks up to 100 people and rooms"),
        ((*NAMES, "--window", "0"), "'--window': 0 is not in the range 1<=x<=100"),
        ((*NAMES, "--window", "many"), "'--window': 'many' is not a valid integer range"),
        ((*NAMES, "--at-once", "101"), "'--at-once': 101 is not in the range 1<=x<=100"),
        ((*NAMES, "--within", "0"), "'--within': '0' is no length of time, such as 90s"),
        ((*NAMES, "--within", "2w"), "'--within': '2w' is no length of time"),
        ((*NAMES, "--remind", "-5"), "'--remind': '-5' is no length of time"),
        ((*NAMES, "--remind", "half an hour"), "'--remind': 'half an hour' is no length of time"),
        ((*NAMES, "--escalate", "approvals"), "'approvals' is a node of this bot"),
        ((*NAMES, "--escalate", ""), "a name in escalate is empty"),
        ((*NAMES, "--signal", ""), "a name in signals is empty"),
        ((*NAMES, "anna@localhost"), "Got unexpected extra argument (anna@localhost)"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(words, sentence):
    found = run(*words)
    *usage, said = found.output.splitlines()
    assert found.exit_code == 2
    assert usage == [] or usage[0].startswith("Usage: ")  # click's, for what it has read itself
    assert sentence.lower() in said.lower()
    assert "hidden-word" not in found.output


def test_a_missing_password_is_one_sentence():
    found = run(*NAMES, password="")
    assert (found.exit_code, found.output.count("\n")) == (2, 1)
    assert "There is no password for people@localhost" in found.output
