"""A short form of `make simulate`: whatever befalls several instances on virtual time, all promises are kept."""

from proof.simulate.run import Run

MINUTES = 3.0


def test_all_promises_are_kept_under_every_fault():
    outcomes = [Run(seed, "sqlite", minutes=MINUTES).run() for seed in (1, 2, 3)]
    assert [outcome.violation for outcome in outcomes] == [""] * 3
    assert all(outcome.completed > 10 for outcome in outcomes)
    assert sum((outcome.faults for outcome in outcomes), start=outcomes[0].faults).total() > 20
