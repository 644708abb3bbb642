import io
import math

from rich.console import Console

from pubqueue_demo.screen import Rate, Screen, View, WorkerView
from pubqueue_demo.tally import Figures, Spread, WorkerCount

VIEW = View(
    total=10_200, depth=4_169, in_flight=64, done=1_280, rate=325.4,
    workers=[
        WorkerView("bot1", "working", WorkerCount(delivered=1_001, done=985)),
        WorkerView("bot2", "stalled", WorkerCount(delivered=320, done=295, unlocked=9, lost_locks=3)),
    ],
)  # fmt: skip


def figures(**changes) -> Figures:
    good = {
        "published": 10_200, "completed": 10_200, "unconfirmed": 14, "redelivered": 404,
        "duplicates": 1, "remaining": 0, "lost": 0, "rate": 805.2, "minutes": 406_185,
        "publish_to_delivery": Spread(5.731, 7.54), "delivery_to_done": Spread(0.031, 0.2165),
    }  # fmt: skip
    return Figures(**good | changes)


def shown(act, *, terminal: bool) -> str:
    """Return what is left on the console when the screen has closed."""
    sink = io.StringIO()
    environment = {"TERM": "xterm"}  # whatever the one of the tests is
    console = Console(
        file=sink, force_terminal=terminal, width=80, color_system=None, _environ=environment
    )
    with Screen(console) as screen:
        act(screen)
    return sink.getvalue()


def test_without_a_terminal_a_picture_is_one_line():
    lines = shown(lambda screen: screen.show(VIEW), terminal=False).splitlines()
    assert [line.partition(" s  ")[2] for line in lines] == [
        "depth 4,169, in flight 64, done 1,280 of 10,200, 325 items/s (bot1 985, bot2 295)"
    ]


def test_without_a_terminal_pictures_are_seconds_apart():
    def act(screen):
        screen.show(VIEW)
        screen.show(VIEW)

    assert len(shown(act, terminal=False).splitlines()) == 1


def test_on_a_terminal_the_picture_has_everything():
    text = shown(lambda screen: screen.show(VIEW), terminal=True)
    for part in ("depth 4,169", "in flight 64", "1,280 done of 10,200", "325 items/s", "stalled"):
        assert part in text
    rows = [line.split() for line in text.splitlines()]
    assert ["bot2", "stalled", "320", "295", "9", "3"] in rows


def test_a_note_stays_and_has_its_time():
    for terminal in (False, True):
        text = shown(lambda screen: screen.note("bot1 [was] killed"), terminal=terminal)
        assert "0.0 s  bot1 [was] killed" in text


def table(of: Figures) -> dict[str, str]:
    text = shown(lambda screen: screen.end(of), terminal=False)
    cells = [line.strip("│").split("│") for line in text.splitlines() if line.startswith("│")]
    return {name.strip(): value.strip() for name, value in cells}


def test_the_table_at_the_end_has_every_figure():
    assert table(figures()) == {
        "published": "10,200",
        "completed": "10,200",
        "of these, confirmation lost in a crash": "14",
        "redelivered": "404",
        "duplicates seen by workers": "1",
        "lost": "0",
        "items/s": "805",
        "publish to delivery, p50": "5.73 s",
        "publish to delivery, p99": "7.54 s",
        "delivery to done, p50": "31.0 ms",
        "delivery to done, p99": "216.5 ms",
        "hours won for passengers": "6,770",
    }


def test_the_table_shows_what_is_still_in_the_queue_and_what_was_not_measured():
    shown_rows = table(figures(remaining=3, delivery_to_done=Spread(math.nan, math.nan)))
    assert shown_rows["still in the queue"] == "3"
    assert shown_rows["delivery to done, p50"] == "-"


def test_the_rate_is_that_of_the_last_two_seconds():
    rate = Rate()
    seen = [
        rate.now(done, at) for done, at in ((0, 0.0), (10, 1.0), (20, 2.0), (20, 3.0), (20, 9.0))
    ]
    assert seen == [0, 10, 10, 5, 0]
