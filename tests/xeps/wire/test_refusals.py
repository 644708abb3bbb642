"""What a refusal means to a client: ask again, or not."""

import pytest

from pubqueue_xeps.errors import Refused, ServiceUnavailable
from pubqueue_xeps.wire.refusals import Refusal, failure
from pubqueue_xeps.worker.settlement import Answer, answer_of

DISK_FULL = Refusal("wait", "internal-server-error")
FAULT = Refusal("cancel", "internal-server-error")
AWAY = [
    Refusal("cancel", "remote-server-not-found"),
    Refusal("cancel", "service-unavailable"),
    Refusal("wait", "resource-constraint"),
]


@pytest.mark.parametrize("refusal", [DISK_FULL, *AWAY])
def test_a_service_that_is_away_for_a_while_is_asked_again(refusal):
    assert refusal.is_transient
    assert answer_of(refusal) is Answer.AGAIN
    assert isinstance(failure(refusal, "queue.localhost", "jobs"), ServiceUnavailable)


def test_a_service_that_has_met_a_fault_of_its_own_is_not_asked_again():
    assert not FAULT.is_transient
    assert answer_of(FAULT) is None
    assert isinstance(failure(FAULT, "queue.localhost", "jobs"), Refused)
