"""Every ERROR of STOMP: the words of each refusal, as a table that is restated here."""

from pubqueue.faces.stomp import refusals
from pubqueue.faces.stomp.codec import V12
from pubqueue.faces.stomp.refusals import Message, Problem, error
from pubqueue.model.decision import Refusal, Refused

# --- refusals and errors -------------------------------------------------------------------------

# fmt: off
SAID = {
    Message.NOT_FOUND: "NODE_NOT_FOUND NOT_A_QUEUE PRECONDITION_NOT_MET CONFIGURATION_REQUIRED MOVED",
    Message.FORBIDDEN: "FORBIDDEN CLOSED_NODE NOT_YOURS PENDING_SUBSCRIPTION NOT_APPROVED NO_PRESENCE_SUBSCRIPTION"
                       " NOT_IN_ROSTER_GROUP FOREIGN_JID TOO_MANY_NODES",
    Message.BODY_NOT_ACCEPTED: "PAYLOAD_TOO_BIG HEADERS_TOO_BIG WRONG_PAYLOAD PAYLOAD_REQUIRED ITEM_REQUIRED ITEM_FORBIDDEN",
    Message.QUEUE_FULL: "NODE_FULL TOO_MANY_ITEMS TOO_MUCH_KEPT TOO_MANY_SIGNALS",
    Message.TRY_LATER: "PUBLISH_PAUSED STILL_NOTIFYING STORE_FAILED TOO_MANY_WAITING",
    Message.ITEM_EXISTS: "ITEM_LOCKED ITEM_EXISTS",
    Message.NO_SUCH_MESSAGE: "ITEM_NOT_FOUND LOCK_LOST LOCKED_BY_ANOTHER",
    Message.TOO_MANY_SUBSCRIPTIONS: "TOO_MANY_SUBSCRIPTIONS",
    Message.NO_SUCH_SUBSCRIPTION: "NOT_SUBSCRIBED",
    Message.BAD_HEADER: "BAD_REQUEST INVALID_OPTIONS",
    Message.NOT_SUPPORTED: "UNSUPPORTED",
    Message.INTERNAL_ERROR: "NODE_EXISTS INVALID_CONFIG UNSUPPORTED_ACCESS_MODEL NOT_ALL_CHANGED SUBID_REQUIRED INVALID_SUBID"
                            " LAST_OWNER TOO_MUCH_STAGED KEY_REUSED TOO_MANY_KEYS NOT_AS_STAGED WINDOW_FULL INTERNAL_FAULT NOT_TRUSTED"
                            " TOO_MUCH_HELD UNKNOWN_MESSAGE",
}


# fmt: on


def test_the_words_of_every_refusal():
    said = {Refusal[name]: words for words, names in SAID.items() for name in names.split()}
    assert said == refusals.WORDS
    assert said.keys() == set(Refusal)


def test_a_payload_that_is_too_big_is_refused_with_both_numbers():
    found = refusals.unexpected(Refused(Refusal.PAYLOAD_TOO_BIG, limit=100), 120)
    assert "100" in found.sentence
    assert "120" in found.sentence


def test_an_error_has_a_message_a_receipt_and_a_sentence():  # S21
    said = error(Problem("not found", "no node", (("version", "1.2"),)), V12, "r:1")
    assert said == (
        b"ERROR\nmessage:not found\nversion:1.2\nreceipt-id:r\\c1\ncontent-type:text/plain\n"
        b"content-length:8\n\nno node\n\0\n"
    )
