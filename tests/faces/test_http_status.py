"""The HTTP status of each refusal: the table is total, and says whose fault it was and whether to try again."""

from http import HTTPStatus

from pubqueue.faces.http.problems import STATUS
from pubqueue.faces.xmpp.xml.refusals import WORDS
from pubqueue.model.decision import Refusal

RIGHTS = {
    Refusal.FORBIDDEN,
    Refusal.NOT_YOURS,
    Refusal.CLOSED_NODE,
    Refusal.NOT_APPROVED,
    Refusal.PENDING_SUBSCRIPTION,
    Refusal.NO_PRESENCE_SUBSCRIPTION,
    Refusal.NOT_IN_ROSTER_GROUP,
    Refusal.FOREIGN_JID,
    Refusal.LAST_OWNER,
    Refusal.NOT_TRUSTED,
}
LATER = {
    Refusal.PUBLISH_PAUSED,
    Refusal.STILL_NOTIFYING,
    Refusal.TOO_MUCH_STAGED,
    Refusal.TOO_MUCH_HELD,
    Refusal.STORE_FAILED,
}


def test_the_table_is_total():
    assert STATUS.keys() == set(Refusal)


def test_each_status_is_a_known_one_that_refuses():
    known = set(HTTPStatus)
    assert set(STATUS) == set(Refusal)
    assert {
        one: it for one, it in STATUS.items() if it not in known or it < HTTPStatus.BAD_REQUEST
    } == {}


def test_what_a_right_is_wanted_for_is_forbidden_and_nothing_else_is():
    assert {one for one in Refusal if STATUS[one] == HTTPStatus.FORBIDDEN} == RIGHTS


def test_what_is_unavailable_now_is_what_the_xmpp_face_has_asked_again_later():
    unavailable = {one for one in Refusal if STATUS[one] == HTTPStatus.SERVICE_UNAVAILABLE}
    assert unavailable == LATER
    assert {WORDS[one].type for one in unavailable} == {"wait"}


def test_only_a_fault_of_ours_is_an_internal_error():
    ours = {one for one in Refusal if STATUS[one] == HTTPStatus.INTERNAL_SERVER_ERROR}
    assert ours == {Refusal.INTERNAL_FAULT}
