"""How far the server is."""

from pubqueue.faces.xmpp.stream.to_many import AHEAD, EVERY, FlowProbe


def test_a_server_that_sends_nothing_back_is_not_waited_for():
    echo = FlowProbe()
    for _ in range(100):
        echo.wrote(AHEAD)
    assert not echo.is_awaited


def test_an_echo_is_sent_now_and_then_and_shows_how_far_it_is():
    echo = FlowProbe()
    assert echo.wrote(EVERY - 1) is None
    assert echo.wrote(1) == f"told-{EVERY}"
    assert echo.wrote(EVERY - 1) is None
    assert echo.wrote(2) == f"told-{2 * EVERY + 1}"


def test_after_one_echo_the_next_is_awaited_before_much_is_sent():
    echo = FlowProbe()
    echo.came_back(echo.wrote(EVERY))
    assert not echo.is_awaited
    later = echo.wrote(AHEAD + 1)
    assert echo.is_awaited
    echo.came_back("told-0")
    echo.came_back("told-999999999999")
    echo.came_back("something else")
    assert echo.is_awaited
    echo.came_back(later)
    assert not echo.is_awaited


def test_an_echo_that_does_not_come_is_given_up():
    echo = FlowProbe()
    echo.came_back(echo.wrote(EVERY))
    echo.wrote(2 * AHEAD)
    echo.give_up()
    assert not echo.is_awaited
