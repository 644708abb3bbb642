import pytest

from pubqueue_demo.faults import STALL, UNLOCK_SHARE, Faults, assigned


def test_three_workers_have_one_fault_each_and_the_others_have_none():
    assert assigned(items=240, workers=4, lock_timeout=5) == [
        Faults(die_at=30),
        Faults(unlock_share=UNLOCK_SHARE),
        Faults(stall_at=10, stall_seconds=STALL * 5),
        Faults(),
    ]


def test_a_lone_worker_has_all_faults():
    assert assigned(items=60, workers=1, lock_timeout=4) == [
        Faults(die_at=30, stall_at=10, stall_seconds=STALL * 4, unlock_share=UNLOCK_SHARE)
    ]


def test_two_workers_share_three_faults():
    killed, unlocking = assigned(items=120, workers=2, lock_timeout=5)
    assert (killed.die_at, killed.stall_at, killed.unlock_share) == (30, 10, 0)
    assert unlocking == Faults(unlock_share=UNLOCK_SHARE)


def test_more_workers_than_items_still_fail_at_their_first_item():
    assert assigned(items=1, workers=4, lock_timeout=5)[0].die_at == 1


def test_a_worker_gives_back_about_its_share_and_only_the_first_time():
    faults = Faults(unlock_share=10)
    given_back = [n for n in range(1000) if faults.unlocks(f"item-{n}", 1)]
    assert 70 < len(given_back) < 130
    assert not any(faults.unlocks(f"item-{n}", 2) for n in given_back)


@pytest.mark.parametrize("item", ["1", "2", "3"])
def test_a_worker_without_the_fault_gives_nothing_back(item):
    assert not Faults().unlocks(item, 1)
