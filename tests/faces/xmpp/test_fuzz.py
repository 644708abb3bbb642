"""Stanzas of every kind at the face, in this process, and the processor time of stanzas, which is linear; `make fuzz` feeds many more, and larger ones."""

from random import Random

from proof.fuzz.costs import too_dear
from proof.fuzz.judge import Fuzzer
from proof.fuzz.rig import Rig

STANZAS = 3000
KINDS = {
    "result",
    "messages and presence",
    "error: bad-request",
    "error: conflict",
    "error: feature-not-implemented",
    "error: forbidden",
    "error: item-not-found",
    "error: not-acceptable",
    "error: not-allowed",
    "error: service-unavailable",
    "error: unexpected-request",
}


async def test_the_face_bears_everything(tmp_path):
    random = Random(1)
    async with Rig(tmp_path, random) as rig:
        fuzzer = Fuzzer(rig, random)
        await fuzzer.run(STANZAS)
    assert fuzzer.counts.total() >= STANZAS
    assert fuzzer.counts.keys() >= KINDS


def test_no_stanza_is_too_dear():
    assert too_dear() == {}
