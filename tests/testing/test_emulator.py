"""The emulator that users' tests start: at its port again, in order or by a crash; a start that fails says why."""

import socket

import pytest

from pubqueue.loopback import free_ports
from pubqueue.testing import Emulator


def accepts(emulator):
    host, _, port = emulator.address.partition(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


def test_it_is_at_the_same_address_after_each_end_until_it_is_left(tmp_path):
    emulator = Emulator(tmp_path)
    with emulator:
        address = emulator.address
        emulator.start()
        for end in (emulator.kill, emulator.stop):
            assert accepts(emulator)
            end()
            end()
            assert not accepts(emulator)
            emulator.start()
            assert emulator.address == address
    assert not accepts(emulator)


def test_a_start_that_fails_says_why_and_leaves_no_process(tmp_path):
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        emulator = Emulator(tmp_path, port)
        with pytest.raises(RuntimeError, match=r"could not be started:\n.*Address already in use"):
            emulator.start()
    emulator.start()
    assert accepts(emulator)
    emulator.stop()
