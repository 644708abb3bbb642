"""What an instance says into a stream that is cut, or cannot say at all: what the oracle is told of it, and what comes of it."""

import asyncio
from contextlib import closing
from functools import partial
from random import Random
from unittest import mock

import pytest
from harness.batches.facts import JOBS, who
from harness.batches.queue_requests import a_queue, publishes
from harness.stores.store_contents import contents
from harness.virtual_time import run as run_virtually

from proof.simulate.instance import PAUSE, RECENT, Instance
from proof.simulate.network import Network
from proof.simulate.places import SqlitePlace
from proof.simulate.words import Ask
from pubqueue.model.decision import Published, Taken
from pubqueue.model.entities import Jid, State
from pubqueue.model.notices import Deliver
from pubqueue.model.replies import Declared
from pubqueue.rules.take import Take

GUS = Jid("gus@x/1")
SOON = 1.0
"""Seconds in which whatever has been asked is answered."""


class Stage:
    """One instance that is connected, a queue with one item, and an oracle that only remembers."""

    def __init__(self, place):
        self.place = place
        self.network = Network(Random(1))
        self.oracle = mock.Mock()
        self.instance = Instance(place, self.network, self.oracle, Random(1))

    async def begin(self):
        await self.instance.start()
        broker = self.instance.process.broker
        assert isinstance(await broker.handle(a_queue()), Declared)
        assert isinstance(await broker.handle(publishes("a")), Published)
        await broker.settled()  # the answer comes before what follows its batch

    async def take(self):
        """Have what has come to the instance by its stream ask for the item; return the answers that came of it."""
        self.instance.process.hear(Ask(GUS, 1, Take(who(GUS), JOBS)))
        await asyncio.sleep(SOON)
        answers = [call.args[1] for call in self.oracle.answers.call_args_list]
        return [item for reply in answers if isinstance(reply, Taken) for item, _ in reply.items]

    def said_again(self):
        said = [call.args[0] for call in self.oracle.says.call_args_list]
        return [what.item.token for what in said if isinstance(what, Deliver) and what.again]

    def there(self):
        ((item, _),) = self.place.look(partial(contents, node=JOBS))
        return item


def on_stage(scene):
    """Play a scene, on virtual time."""

    async def played(place):
        stage = Stage(place)
        await stage.begin()
        try:
            await scene(stage)
        finally:
            stage.instance.end()
            await asyncio.sleep(0)

    with closing(SqlitePlace()) as place:
        run_virtually(played(place))


@pytest.mark.parametrize("unnoticed", [RECENT - 2, RECENT + 4])
def test_a_taken_item_comes_again_or_was_sent_before_the_fault(unnoticed):
    async def scene(stage):
        stream = stage.instance.cut()
        (item,) = await stage.take()
        await asyncio.sleep(unnoticed - SOON)
        stage.instance.notice_cut(stream)
        excused = [call.args[0].token for call in stage.oracle.excuses.call_args_list]
        await asyncio.sleep(PAUSE + SOON)
        late = unnoticed > RECENT
        assert (excused, stage.said_again()) == (([item.token], []) if late else ([], [item.token]))

    on_stage(scene)


def test_a_taken_item_that_cannot_be_sent_is_requeued():
    async def scene(stage):
        process = stage.instance.process
        stage.oracle.look.side_effect = process.down  # after the commit, before its answer
        (item,) = await stage.take()
        assert (item.state, stage.there().state) == (State.LOCKED, State.QUEUED)

    on_stage(scene)
