"""Answers to deliveries, as they are remembered."""

from __future__ import annotations

from msgspec import json

from pubqueue.core.decision import Refusal, Refused


def answer_of(refused: Refused) -> str:
    """Return a refusal as it is remembered."""
    bounds = refused.limit, refused.setting
    return json.encode((refused.refusal.name, refused.reason, *bounds)).decode()


def refused_of(answer: str) -> Refused | None:
    """Return the refusal that is remembered; None if the answer is none of the core's, but of the face."""
    if not answer.startswith("["):
        return None
    name, reason, limit, setting = json.decode(answer)
    return Refused(Refusal[name], reason, limit, setting=setting)
