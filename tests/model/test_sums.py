"""Checksums: each flipped bit is found, in the payload and in what is delivered with it."""

import pytest
from harness.batches.facts import waiting
from msgspec.structs import replace

from pubqueue.model.sums import (
    UNREADABLE,
    has_sound_head,
    is_sound,
    sealed,
    sum_of,
    unsealed,
    with_headers,
)

PAYLOAD = b"<pay amount='1000'>EUR</pay>"
HEADERS = (("currency", "EUR"), ("note", "\u00e4"))
ITEM = waiting(id="pay-1", group="bank", headers=HEADERS)
SOUND = replace(ITEM, sum=sum_of(ITEM.id, PAYLOAD, "bank", HEADERS))


def test_each_flipped_bit_of_a_payload_is_found():
    assert is_sound(SOUND.sum, PAYLOAD)
    for bit in range(8 * len(PAYLOAD)):
        flipped = bytearray(PAYLOAD)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not is_sound(SOUND.sum, bytes(flipped)), bit


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "pay-2"},
        {"group": "bunk"},
        {"group": ""},
        {"headers": ()},
        {"headers": (("currency", "EUR"), ("note", "a"))},
        {"headers": (("currenc", "yEUR"), ("note", "\u00e4"))},
        {"headers": UNREADABLE},
        {"headers": UNREADABLE, "sum": None},
    ],
)
def test_what_goes_with_it_is_compared_too(changes):
    assert has_sound_head(SOUND)
    assert not has_sound_head(replace(SOUND, **changes))


def test_it_fits_into_a_signed_column():
    sums = [sum_of(f"i{n}", bytes([n % 256]) * n) for n in range(2_000)]
    assert all(-(1 << 63) <= one < 1 << 63 for one in sums)
    assert min(sums) < 0 < max(sums)


def test_other_headers_leave_the_half_of_the_payload():
    other = (("currency", "USD"),)
    assert with_headers(SOUND, other) == sum_of(ITEM.id, PAYLOAD, "bank", other)
    assert with_headers(ITEM, other) is None


def test_other_headers_do_not_hide_the_damage_of_what_they_stand_beside():
    damaged = replace(SOUND, id="pay-2")
    assert with_headers(damaged, ()) == SOUND.sum
    assert not has_sound_head(replace(damaged, headers=(), sum=with_headers(damaged, ())))


def test_what_was_stored_without_a_sum_is_taken_as_it_is():
    assert is_sound(None, PAYLOAD)
    assert has_sound_head(ITEM)


def test_each_flipped_bit_of_what_is_sealed_is_found():
    content = b"\x94\xa5hello\x01\x02\x03"
    whole = sealed(content)
    assert (unsealed(whole), unsealed(content)) == (content, content)
    for bit in range(8, 8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert unsealed(bytes(flipped)) is None
