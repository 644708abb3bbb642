"""The ids of dead letters whose own ids are taken."""

from harness.batches.facts import NOW

from pubqueue.model.entities import MAX_ID_LENGTH, ItemId, NodeName
from pubqueue.rules.moving import id_elsewhere


def test_a_short_id_elsewhere_is_made_of_node_and_id():
    short = NodeName("n"), ItemId("i"), NOW
    assert id_elsewhere(*short, "app.1.2.3") == f"n/i.{NOW}"
    assert id_elsewhere(*short, "app.1.2.3", twice=True) == f"n/i.{NOW}.app.1.2.3"
    room = MAX_ID_LENGTH - len(f"n/.{NOW}")
    for over, expected in ((0, f"n/{'i' * room}.{NOW}"), (1, f"n/{'i' * 98}.{NOW}.app.1.2.3")):
        name = ItemId("i" * (room + over))
        assert id_elsewhere(NodeName("n"), name, NOW, "app.1.2.3") == expected
