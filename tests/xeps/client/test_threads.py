"""What blocks is made of coroutine functions: nothing of them is missing, and nothing is written twice."""

import asyncio
import inspect
import threading

import pytest

from pubqueue import BlockingItem, BlockingPublisher, Item, Publisher, Worker
from pubqueue_xeps.client.threads import Blocking, blocking, is_async, takes, wait_for
from pubqueue_xeps.item import ItemFacts

BY_HAND = {
    (Publisher, "open"): "starts the thread",
    (Publisher, "close"): "ends the thread",
}
"""Methods that block and are written by themselves, with the reason."""
NONE = {
    (Item, "retract"): "the worker retracts the item when the handler has returned",
    (Item, "unlock"): "the worker unlocks the item when the handler has raised an exception",
    (Item, "respond"): "the worker replies with what the handler returns",
}
"""Coroutine functions without a method that blocks, with the reason."""
TWINS = {Publisher: BlockingPublisher, Item: BlockingItem}


def coroutine_functions():
    for of in TWINS:
        for name, function in inspect.getmembers(of, inspect.iscoroutinefunction):
            if not name.startswith("_"):
                yield of, name, function


@pytest.mark.parametrize(
    ("of", "name", "function"), [pytest.param(*it, id=it[1]) for it in coroutine_functions()]
)
def test_each_coroutine_function_has_a_method_that_blocks(of, name, function):
    twin = getattr(TWINS[of], name, None)
    assert (twin is None) is ((of, name) in NONE)
    if twin is not None:
        assert inspect.signature(twin) == inspect.signature(function)
        assert inspect.getdoc(twin) == inspect.getdoc(function)
        assert twin.__name__ == name
        assert not is_async(twin)


def test_the_lists_name_what_is_there():
    there = {(of, name) for of, name, _ in coroutine_functions()}
    assert BY_HAND.keys() | NONE.keys() <= there
    by_itself = {
        (of, name)
        for of, name in there - NONE.keys()
        if name in vars(TWINS[of]) and is_by_hand(of, name)
    }
    assert by_itself == BY_HAND.keys()


def is_by_hand(of, name):
    return getattr(TWINS[of], name).__code__.co_name == name


@pytest.mark.parametrize("name", ["__init__", "from_url", "pending"])
def test_other_methods_of_a_publisher_have_the_same_parameters(name):
    twin, one = getattr(BlockingPublisher, name), getattr(Publisher, name)
    assert inspect.signature(twin) == inspect.signature(one)


def test_what_is_known_of_an_item_is_known_to_both_kinds_of_handlers():
    assert issubclass(Item, ItemFacts)
    assert issubclass(BlockingItem, ItemFacts)
    own = {name for name, it in vars(Item).items() if isinstance(it, property)}
    assert own == {"state"}  # which the worker changes


def test_a_worker_runs_both_kinds_with_the_same_settings():
    run, blocks = (inspect.signature(it).parameters for it in (Worker.run, Worker.run_blocking))
    assert set(blocks) == set(run)


class Doubler:
    async def double(self, number: int, *, and_add: int = 0) -> int:
        """Return the double."""
        if number < 0:
            raise ValueError("negative")
        return 2 * number + and_add


class BlockingDoubler(Blocking[Doubler]):
    double = blocking(Doubler.double)

    def __init__(self, loop):
        self._twin, self._loop = Doubler(), loop

    def _wait(self, work):
        return wait_for(work, self._loop)

    @takes(Doubler.double)
    def repeat(self, *args, **kwargs):
        return [self.double(*args, **kwargs)] * 2


@pytest.fixture
def doubler():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield BlockingDoubler(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_method_that_blocks_returns_what_the_coroutine_returns(doubler):
    assert doubler.double(2, and_add=1) == 5
    assert doubler.repeat(number=1) == [2, 2]


def test_a_method_that_blocks_raises_what_the_coroutine_raises(doubler):
    with pytest.raises(ValueError, match="negative"):
        doubler.double(-1)
    with pytest.raises(TypeError, match="and_ad"):
        doubler.double(1, and_ad=1)


def test_help_shows_the_parameters_of_the_coroutine_function():
    assert str(inspect.signature(BlockingDoubler.repeat)).startswith(
        "(self, number: int, *, and_add"
    )
    assert BlockingDoubler.double.__doc__ == "Return the double."
