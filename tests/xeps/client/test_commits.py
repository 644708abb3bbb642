"""A commit may take any time, as long as it advances."""

import pytest

from pubqueue_xeps.client.commits import LATEST, until_done
from pubqueue_xeps.errors import ServiceUnavailable
from pubqueue_xeps.wire.requests.transactions import AtWork


class Service:
    """Answers one thing after the other, the last one for ever; its time passes between two questions only."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.now = 0.0
        self.pauses = []

    async def ask(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    async def until_done(self, patience, reported):
        return await until_done(
            self.ask,
            lambda answer: answer if isinstance(answer, AtWork) else None,
            patience=patience,
            reported=reported,
            clock=lambda: self.now,
            sleep=self.sleep,
        )


def judged(number):
    return AtWork(moving=False, done=number, of=1000)


async def test_a_commit_that_advances_outlasts_every_patience():
    progress = [judged(number) for number in range(1000)]
    service, reported = Service(*progress, "committed"), []
    assert await service.until_done(5.0, reported.append) == "committed"
    assert reported == progress
    assert service.now > 1000


async def test_one_that_stands_still_fails_with_its_place():
    service = Service(judged(1), judged(7))
    with pytest.raises(
        ServiceUnavailable,
        match=r"^the commit has not advanced for \d+ seconds: 7 of 1,000 items are judged\.$",
    ):
        await service.until_done(30.0, lambda _: None)
    assert 30 <= service.now <= 30 + 3 * LATEST


async def test_two_processes_that_stand_still_are_no_progress():
    service = Service(*[judged(1), judged(7)] * 100)
    with pytest.raises(ServiceUnavailable):
        await service.until_done(30.0, lambda _: None)


async def test_a_commit_that_begins_anew_advances():
    lost = [judged(number) for number in range(900)]
    service = Service(*lost, *lost, "committed")
    assert await service.until_done(5.0, lambda _: None) == "committed"


async def test_the_first_questions_come_soon_and_later_ones_rarely():
    service = Service(*map(judged, range(10)), "committed")
    await service.until_done(5.0, lambda _: None)
    assert service.pauses[0] <= 0.1
    assert service.pauses[-1] == LATEST
    assert service.pauses == sorted(service.pauses)
