"""Scrypt strings: how they are made and read, and which are too weak or too expensive; and subjects of certificates."""

import hashlib
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from pubqueue.accounts import credentials
from pubqueue.accounts.credentials import MAX_LENGTH, Scrypt, decoy, make, read_password_hash

SALT = b64encode(bytes(16)).decode().rstrip("=")
HASH = b64encode(bytes(32)).decode().rstrip("=")


def test_a_password_matches_what_was_made_of_it_and_nothing_else():
    made = make("correct horse")
    assert made.text.startswith("$scrypt$ln=14,r=8,p=1$")
    assert read_password_hash(made.text) == made
    assert made.matches("correct horse")
    assert not made.matches("correct horsf")
    assert not made.matches("")


def test_two_of_the_same_password_differ():
    assert make("correct horse").text != make("correct horse").text


def test_a_string_of_another_program_is_read():
    digest = hashlib.scrypt(b"secret", salt=b"salty salt!", n=1 << 14, r=8, p=1, dklen=32)
    salt, found = (b64encode(part).decode().rstrip("=") for part in (b"salty salt!", digest))
    assert read_password_hash(f"$scrypt$ln=14,r=8,p=1${salt}${found}").matches("secret")


def test_letters_that_are_composed_differently_are_the_same():
    assert make("pässword").matches("pa\u0308ssword")


@pytest.mark.parametrize("password", ["short", "", "x" * (MAX_LENGTH + 1), "ä" * 513])
def test_passwords_that_are_too_short_or_too_long_are_refused(password):
    with pytest.raises(ValueError, match="a password has at"):
        make(password)


def test_an_overlong_password_never_matches_even_if_its_beginning_does():
    password = "x" * MAX_LENGTH
    made = make(password)
    assert made.matches(password)
    assert not made.matches(password + "x")


def test_no_password_matches_a_decoy():
    assert not decoy().matches("")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("geheim", "must be a scrypt string"),
        ("", "must be a scrypt string"),
        (f"$scrypt$ln=14,r=8,p=1${SALT}${HASH}\n", "must be a scrypt string"),
        (f"$scrypt$ln=14,r=8,p=1${SALT}$short", "must be a scrypt string"),
        (f"$2b$12${SALT}{HASH}", "must be a scrypt string"),
        (f"$scrypt$ln=14,r=8,p=1${SALT}${HASH[:-1]}B", "must be a scrypt string"),
        (f"$scrypt$ln=13,r=8,p=1${SALT}${HASH}", "ln=13,r=8,p=1 is too weak"),
        (f"$scrypt$ln=14,r=0,p=1${SALT}${HASH}", "is too weak"),
        (f"$scrypt$ln=17,r=8,p=1${SALT}${HASH}", "costs too much"),
        (f"$scrypt$ln=99,r=999,p=999${SALT}${HASH}", "costs too much"),
        (f"$scrypt$ln=14,r=8,p=99${SALT}${HASH}", "costs too much"),
    ],
)
def test_an_invalid_scrypt_string_is_refused_without_repeating_it(text, why):
    with pytest.raises(ValueError, match=why) as refused:
        read_password_hash(text)
    assert "geheim" not in str(refused.value)


def test_stored_secrets_are_not_shown():
    made = make("correct horse")
    assert repr(made) == pretty_repr(made) == "Scrypt(ln=14, r=8, p=1)"


@given(salt=st.binary(min_size=8, max_size=64), digest=st.binary(min_size=16, max_size=64))
@settings(max_examples=50)
def test_every_string_is_read_as_it_was_written(salt, digest):
    one = Scrypt(14, 8, 1, salt, digest)
    assert read_password_hash(one.text) == one


def test_the_most_expensive_one_can_be_compared():
    one = read_password_hash(f"$scrypt$ln=16,r=8,p=1${SALT}${HASH}")
    assert not one.matches("x")
    assert 128 * one.r << one.ln == credentials.MAX_MEMORY_BYTES


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("CN=etl", (("commonName", "etl"),)),
        ("CN=etl,O=example", (("commonName", "etl"), ("organizationName", "example"))),
        ("O = example, CN = etl", (("commonName", "etl"), ("organizationName", "example"))),
        ("o=example+cn=etl", (("commonName", "etl"), ("organizationName", "example"))),
        (r"CN=a\, b,commonName=c=d", (("commonName", "a, b"), ("commonName", "c=d"))),
        ("UID=7,1.2.3.4=x", (("1.2.3.4", "x"), ("userId", "7"))),
    ],
)
def test_a_subject_is_read(text, subject):
    assert credentials.read_subject(text) == subject


@pytest.mark.parametrize("text", ["", "etl", "CN=", "CN=a,", "CN=a,,O=b", "=a", "CN=a,b", "NAME=x"])
def test_an_invalid_subject_is_refused(text):
    with pytest.raises(ValueError, match=r"must be the subject|has no known type"):
        credentials.read_subject(text)


def test_the_order_of_a_certificate_does_not_count_but_each_part_does():
    certificate = ((("organizationName", "example"),), (("commonName", "etl"),))
    assert credentials.subject_of(certificate) == credentials.read_subject("CN=etl,O=example")
    assert credentials.subject_of(certificate) != credentials.read_subject("CN=etl")
