"""Subscriptions that deliver exactly once: the results that clients get for each ack id. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpc import StatusCode

from pubqueue.faces.grpc.pubsub.settling import Verdict
from pubqueue.faces.grpc.wire.messages import v1
from pubqueue.faces.grpc.wire.statuses import CallError

if TYPE_CHECKING:
    from pubqueue.faces.grpc.pubsub.settling import Settled

REASONS: Final = {
    Verdict.WORTHLESS: "PERMANENT_FAILURE_INVALID_ACK_ID",
    Verdict.FAILED: "TRANSIENT_FAILURE_STORE",
}
"""Verdicts that clients get, in the words that they know. A message that is gone will not be delivered again, so it is not a failure."""


def check(settled: Settled) -> None:
    """Fail with the ack ids that could not be settled, if the subscription delivers exactly once; the others are settled.

    Raises:
        CallError: there are such, with the reason of each.

    """
    if not settled.is_exact:
        return
    reasons = {
        text: REASONS[verdict] for text, verdict in settled.verdicts.items() if verdict in REASONS
    }
    if not reasons:
        return
    are_all = len(reasons) == len(settled.verdicts)
    code = StatusCode.FAILED_PRECONDITION if are_all else StatusCode.ABORTED
    raise CallError(code, "Some acknowledgement IDs in the request were invalid.", reasons)


def confirm_acks(answers: list[v1.StreamingPullResponse], settled: Settled) -> None:
    """Add an answer with the results of acknowledgements over a stream."""
    if not settled.is_exact:
        return
    done, worthless, failed = _by_verdict(settled)
    answer = v1.StreamingPullResponse()
    confirmation = answer.acknowledge_confirmation
    confirmation.ack_ids.extend(done)
    confirmation.invalid_ack_ids.extend(worthless)
    confirmation.temporary_failed_ack_ids.extend(failed)
    answers.append(answer)


def confirm_deadlines(answers: list[v1.StreamingPullResponse], settled: Settled) -> None:
    """Add an answer with the results of new deadlines over a stream."""
    if not settled.is_exact:
        return
    done, worthless, failed = _by_verdict(settled)
    answer = v1.StreamingPullResponse()
    confirmation = answer.modify_ack_deadline_confirmation
    confirmation.ack_ids.extend(done)
    confirmation.invalid_ack_ids.extend(worthless)
    confirmation.temporary_failed_ack_ids.extend(failed)
    answers.append(answer)


def _by_verdict(settled: Settled) -> tuple[list[str], list[str], list[str]]:
    of: dict[str | None, list[str]] = {}
    for text, verdict in settled.verdicts.items():
        of.setdefault(REASONS.get(verdict), []).append(text)
    return (
        of.get(None, []),
        of.get(REASONS[Verdict.WORTHLESS], []),
        of.get(REASONS[Verdict.FAILED], []),
    )
