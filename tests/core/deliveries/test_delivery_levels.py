"""The level of deliveries: the option, else the queue's setting for clients that can answer."""

from itertools import product

import pytest
from harness.batches.facts import ANN, queue, window

from pubqueue.model.entities import Level, account_of
from pubqueue.rules.deliveries import asks, level_of, levels_of

NONE = Level.UNACKNOWLEDGED


@pytest.mark.parametrize("setting", Level)
def test_the_option_decides_or_else_the_queue_for_capable_clients(setting):
    config, found, expected = queue(qos=setting).config, {}, {}
    for option, able in product((None, *Level), (None, False, True)):
        one, bare = window(qos=option), window(account_of(ANN), qos=option)
        level = option if option is not None else setting if able else NONE
        levels = {} if level is NONE else {one.jid: level}
        expected[option, able] = (
            level,
            NONE,
            levels,
            option is None and setting is not NONE,
            False,
        )
        found[option, able] = (
            level_of(config, one, lambda _jid, able=able: able),
            level_of(config, bare, lambda _jid, able=able: able),
            levels_of(config, [one, bare], lambda _jid, able=able: able),
            asks(config, one),
            asks(config, bare),
        )
    assert found == expected


def test_no_client_is_looked_up_without_a_level():
    def never(_jid):
        raise AssertionError

    line = [window(), window(qos=Level.ASSURED)]
    assert levels_of(queue().config, line, never) == {line[1].jid: Level.ASSURED}
    assert levels_of(queue().config, [window()], never) == {}
