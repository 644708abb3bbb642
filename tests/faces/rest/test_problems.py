"""Problems: a total table, and documents that show nothing of ours."""

import msgspec

from pubqueue.faces.http.problems import NAMES, STATUS, TITLES, ProblemError, refused
from pubqueue.model.decision import Refusal, Refused


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


async def test_a_fault_of_ours_shows_nothing(rest, monkeypatch):  # W08
    etl = await rest.as_()

    def fails(*_given):
        raise ValueError("/etc/secret")

    monkeypatch.setattr(rest.face, "submit", fails)
    answer = await etl.get("/queues/jobs")
    assert (answer.status_code, answer.json()["type"].endswith(":fault")) == (500, True)
    assert "secret" not in answer.text
