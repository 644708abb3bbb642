"""The level of deliveries: the option, else the queue's setting for clients that can answer."""

from itertools import product

import pytest
from harness.batches.facts import ANN, queue, window

from pubqueue.core.addresses import account_of
from pubqueue.core.deliveries.levels import asks, level_of, levels_of
from pubqueue.core.model import Level

NONE = Level.UNACKNOWLEDGED


@pytest.mark.parametrize(
    ("setting", "option", "able"), list(product(Level, (None, *Level), (None, False, True)))
)
def test_the_option_decides_or_else_the_queue_for_capable_clients(setting, option, able):
    config, one = queue(qos=setting).config, window(qos=option)
    expected = option if option is not None else setting if able else NONE
    assert level_of(config, one, lambda _jid: able) is expected
    bare = window(account_of(ANN), qos=option)
    assert level_of(config, bare, lambda _jid: able) is NONE
    assert levels_of(config, [one, bare], lambda _jid: able) == (
        {} if expected is NONE else {one.jid: expected}
    )
    assert asks(config, one) is (option is None and setting is not NONE)
    assert not asks(config, bare)


def test_no_client_is_looked_up_without_a_level():
    def never(_jid):
        raise AssertionError

    line = [window(), window(qos=Level.ASSURED)]
    assert levels_of(queue().config, line, never) == {line[1].jid: Level.ASSURED}
    assert levels_of(queue().config, [window()], never) == {}
