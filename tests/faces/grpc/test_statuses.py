"""Each refusal has a code and a sentence, and none has a detail that a stranger could use."""

import pytest
from grpc import StatusCode

from pubqueue.faces.grpc.statuses import CODES, problem_of
from pubqueue.model.decision import Refusal, Refused

NEVER = {StatusCode.OK, StatusCode.UNKNOWN, StatusCode.DATA_LOSS, StatusCode.CANCELLED}


def test_the_table_is_total():  # G45
    assert CODES.keys() == set(Refusal)


def test_every_refusal_has_a_code_and_a_sentence():  # G45
    topic = "projects/shop/topics/orders"
    problems = {refusal: problem_of(Refused(refusal, "because", 7), topic) for refusal in Refusal}
    assert {one: it for one, it in problems.items() if it.code in NEVER or not it.message} == {}


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (Refusal.NODE_NOT_FOUND, StatusCode.NOT_FOUND),
        (Refusal.CLOSED_NODE, StatusCode.NOT_FOUND),
        (Refusal.NODE_EXISTS, StatusCode.ALREADY_EXISTS),
        (Refusal.PAYLOAD_TOO_BIG, StatusCode.INVALID_ARGUMENT),
        (Refusal.FORBIDDEN, StatusCode.PERMISSION_DENIED),
        (Refusal.NODE_FULL, StatusCode.RESOURCE_EXHAUSTED),
        (Refusal.STORE_FAILED, StatusCode.UNAVAILABLE),
        (Refusal.PUBLISH_PAUSED, StatusCode.FAILED_PRECONDITION),
        (Refusal.INTERNAL_FAULT, StatusCode.INTERNAL),
    ],
)
def test_codes_that_clients_act_on(refusal, code):  # G45
    assert CODES[refusal] is code


def test_what_one_may_not_do_and_faults_of_ours_have_no_reason():  # G45
    for refusal in (Refusal.FORBIDDEN, Refusal.INTERNAL_FAULT, Refusal.CLOSED_NODE):
        assert "because" not in problem_of(Refused(refusal, "because", 7)).message
