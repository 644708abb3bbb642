"""The disk forgets what was not synced, and nothing else; and programs see on it what they see on any other."""

import errno
import os
import sqlite3
import stat
from contextlib import closing, suppress
from random import Random

import pytest
from mfusepy import FuseOSError

from proof.disk.forgetful import Disk, Rules
from proof.disk.mounting import ForgetfulDisk

MODE = stat.S_IFREG | 0o600
SEEDS = range(40)


def there(place):
    """Return what is on the disk, by its names."""
    return {name: bytes(file.data) for name, file in Disk(place, Random(1)).files.items()}


def written(file, *pieces):
    for at, data in pieces:
        file.change(at, data)


def images(tmp_path, work, **rules):
    """Return what may be on the disk when the power fails after this work, over all seeds."""
    found = []
    for seed in SEEDS:
        place = tmp_path / f"{seed}"
        place.mkdir()
        disk = Disk(place, Random(seed), Rules(**rules))
        work(disk)
        disk.lose_power()
        found.append(there(place))
    return found


def test_what_was_synced_is_there_whatever_is_written_afterwards(tmp_path):
    def work(disk):
        file = disk.add("/f", MODE)
        written(file, (0, b"synced"))
        disk.sync(file)
        written(file, (6, b" and not"))

    found = {image["/f"] for image in images(tmp_path, work)}
    assert {image[:6] for image in found} == {b"synced"}
    assert {b"synced", b"synced and not"} <= found


def test_writes_come_in_any_order_and_torn_at_a_sector(tmp_path):
    def work(disk):
        file = disk.add("/f", MODE)
        disk.sync(file)
        written(file, (0, b"a" * 1024), (1024, b"b" * 1024))

    found = {image["/f"] for image in images(tmp_path, work)}
    assert b"" in found
    assert bytes(1024) + b"b" * 1024 in found, "the second and not the first"
    assert found & {b"a" * 512, bytes(1024) + b"b" * 512}, "torn"
    assert all(len(image) % 512 == 0 for image in found)


def test_names_come_in_their_order_and_a_rename_is_whole(tmp_path):
    def work(disk):
        disk.sync(disk.add("/old", MODE))
        disk.add("/new", MODE)
        disk.rename("/new", "/old")
        disk.add("/last", MODE)

    found = {frozenset(image) for image in images(tmp_path, work)}
    assert found == {frozenset(it) for it in (["/old"], ["/old", "/new"], ["/old", "/last"])}


def test_after_a_sync_that_failed_the_next_one_brings_nothing(tmp_path):
    disk = Disk(tmp_path, Random(1))
    file = disk.add("/f", MODE)
    disk.sync(file)
    written(file, (0, b"lost"))
    disk.rules = Rules(failing=1.0)
    with pytest.raises(FuseOSError, match=f"{errno.EIO}"):
        disk.sync(file)
    disk.rules = Rules()
    disk.sync(file)
    assert bytes(file.data) == b"lost", "programs still read it"
    assert there(tmp_path) == {"/f": b""}


def test_a_full_disk_takes_no_more(tmp_path):
    disk = Disk(tmp_path, Random(1), Rules(size=10))
    disk.grow(10)
    written(disk.add("/f", MODE), (0, b"12345678"))
    with pytest.raises(FuseOSError, match=f"{errno.ENOSPC}"):
        disk.grow(3)


def test_a_lying_disk_keeps_nothing_and_bits_may_flip(tmp_path):
    def work(disk):
        file = disk.add("/f", MODE)
        written(file, (0, bytes(64)))
        disk.sync(file)

    (tmp_path / "lying").mkdir()
    assert {} in images(tmp_path / "lying", work, is_lying=True)
    assert {sum(map(int.bit_count, image["/f"])) for image in images(tmp_path, work, flips=1)} == {
        1
    }


def test_programs_see_it_as_any_other_disk_and_a_killed_one_has_what_was_synced(tmp_path):
    with ForgetfulDisk(tmp_path) as disk:
        folder = disk.path / "folder"
        folder.mkdir()
        (folder / "f").write_bytes(b"x" * 100_000)
        (folder / "f").rename(folder / "g")
        assert (folder / "g").stat().st_size == 100_000
        assert [path.name for path in folder.iterdir()] == ["g"]
        with (folder / "g").open("r+b") as file:
            file.truncate(10)
            os.fsync(file.fileno())
            file.seek(0)
            file.write(b"unsynced")
        (folder / "h").touch()
        (folder / "h").unlink()
        disk.kill()
        disk.start()
        assert (folder / "g").read_bytes() == b"x" * 10
        (folder / "g").write_bytes(b"unmounted")
    with ForgetfulDisk(tmp_path):
        assert (folder / "g").read_bytes() == b"unmounted", (
            "a machine that is shut down forgets nothing"
        )


def test_a_database_that_does_not_sync_loses_what_it_has_committed(tmp_path):
    """So that it is seen that the disk finds what it is there for."""
    lost = {"OFF": 0, "FULL": 0}
    with ForgetfulDisk(tmp_path) as disk:
        for synchronous in lost:
            for number in range(4):
                path = disk.path / f"{synchronous}{number}.db"
                database = sqlite3.connect(path, isolation_level=None)
                database.execute("PRAGMA locking_mode = EXCLUSIVE")  # without shared memory
                database.execute("PRAGMA journal_mode = WAL")
                database.execute(f"PRAGMA synchronous = {synchronous}")
                database.execute("CREATE TABLE row (n INTEGER)")
                database.executemany("INSERT INTO row VALUES (?)", [(n,) for n in range(20)])
                disk.lose_power()
                with suppress(sqlite3.Error):
                    database.close()
                disk.start()
                lost[synchronous] += not is_whole(path)
    assert (lost["OFF"] > 0, lost["FULL"]) == (True, 0)


def is_whole(path):
    with closing(sqlite3.connect(path)) as database:
        try:
            return database.execute("SELECT count(*) FROM row").fetchone() == (20,)
        except sqlite3.Error:
            return False
