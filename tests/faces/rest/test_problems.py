"""Problems: a total table, and documents that show nothing of ours."""

import msgspec
import pytest

from pubqueue.core.decision import Refusal, Refused
from pubqueue.faces.http_status import STATUS
from pubqueue.faces.rest.http.problems import NAMES, TITLES, ProblemError, refused


@pytest.mark.parametrize("refusal", Refusal)
def test_every_refusal_is_a_problem_document(refusal):  # W08
    response = refused(Refused(refusal, "because", 7, part=2)).response()
    assert response.status == STATUS[refusal]
    assert response.content_type == "application/problem+json"
    document = msgspec.json.decode(response.body)
    assert document == {
        "type": f"urn:x-pubqueue:problem:{NAMES[refusal]}",
        "title": TITLES[NAMES[refusal]],
        "status": STATUS[refusal],
        "detail": "because",
        "limit": 7,
        "index": 2,
    }
    retry = "Retry-After" in response.headers
    assert retry is (NAMES[refusal] in {"paused", "busy", "too-many", "unavailable"})


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
