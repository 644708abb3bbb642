"""Problems: a status for each refusal, a total table, and documents that show nothing of ours."""

from http import HTTPStatus

import msgspec

from pubqueue.faces.http.problems import NAMES, STATUS, TITLES, ProblemError, refused
from pubqueue.faces.xmpp.xml.refusals import WORDS
from pubqueue.model.decision import Refusal, Refused

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


def test_every_refusal_is_a_problem_document():  # W08
    def shown(refusal):
        response = refused(Refused(refusal, "because", 7, part=2)).response()
        document = msgspec.json.decode(response.body)
        return response.status, response.content_type, "Retry-After" in response.headers, document

    def expected(refusal):
        name = NAMES[refusal]
        document = {
            "type": f"urn:x-pubqueue:problem:{name}",
            "title": TITLES[name],
            "status": STATUS[refusal],
            "detail": "because",
            "limit": 7,
            "index": 2,
        }
        again = name in {"paused", "busy", "too-many", "unavailable"}
        return STATUS[refusal], "application/problem+json", again, document

    assert {one: shown(one) for one in Refusal} == {one: expected(one) for one in Refusal}


def test_the_table_names_every_refusal():
    assert NAMES.keys() == set(Refusal)
    assert set(NAMES.values()) <= TITLES.keys()


def test_what_has_moved_links_to_its_successor():
    response = refused(Refused(Refusal.MOVED, "xmpp:other")).response()
    assert response.headers["Link"] == '<xmpp:other>; rel="successor-version"'
    assert response.status == 410


def test_a_problem_may_end_the_connection():
    response = ProblemError(413, "too-large", close=True).response()
    assert response.headers["Connection"] == "close"
    assert response.keep_alive is False
