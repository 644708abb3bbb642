"""A short slice of `proof.flips`: bits of a store are flipped, and nothing wrong is given out."""

from contextlib import closing

import pytest
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from proof.flips import flip_file, flip_rows, flip_settings, flip_transactions

from pubqueue.engine import damage
from pubqueue.stores.sql import columns, commits, kinds, load


def broken(outcomes):
    return [outcome.broken for outcome in outcomes if outcome.broken]


def test_bits_of_a_file_are_flipped(tmp_path):
    outcomes = flip_file(3, 40, tmp_path)
    assert broken(outcomes) == []
    assert sum(outcomes.values()) == 40
    assert len(outcomes) > 1


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    sqlite = request.param == "sqlite"
    place = tmp_path / "queue.db" if sqlite else request.getfixturevalue("postgres").address
    made = Shell(place) if sqlite else PostgresShell(place)
    with closing(made):
        yield made


def test_bits_of_rows_are_flipped(shell):
    outcomes = flip_rows(shell, 3)
    assert broken(outcomes) == []
    assert {one.word for one in outcomes} == {"not flipped", "the item is dead"}


def test_what_would_be_given_out_without_the_comparison_is_noticed(shell, monkeypatch):
    monkeypatch.setattr(damage, "is_sound", lambda _known, _payload: True)
    monkeypatch.setattr(damage, "split", lambda rows: (list(rows), []))
    assert "given out" in {one.word for one in flip_rows(shell, 3)}


def test_bits_of_rows_that_are_no_items_are_flipped(shell):
    outcomes = flip_settings(shell, 3, share=0.6)
    assert broken(outcomes) == []
    words = {one.word for one in outcomes}
    assert "closed" in words <= {"closed", "check alone", "refused by the store", "an error"}
    assert sum(outcomes.values()) > 10


def test_what_anyone_would_gain_without_the_comparison_is_noticed(shell, monkeypatch):
    for chapter in (columns, kinds):
        monkeypatch.setattr(chapter, "is_whole", lambda _table, _known, _columns: True)
    assert "more" in {one.word for one in flip_settings(shell, 3, share=0.4)}


def test_bits_of_rows_of_transactions_are_flipped(shell):
    outcomes = flip_transactions(shell, 3, share=0.4)
    assert broken(outcomes) == []
    words = {one.word for one in outcomes}
    assert {"refused", "check alone"} <= words <= {"refused", "check alone", "refused by the store"}
    assert sum(outcomes.values()) > 20


def test_what_would_be_committed_twice_without_the_comparison_is_noticed(shell, monkeypatch):
    for chapter in (columns, kinds, commits, load):
        monkeypatch.setattr(chapter, "is_whole", lambda _table, _known, _columns: True)
    assert "more" in {one.word for one in flip_transactions(shell, 3, share=0.4)}
