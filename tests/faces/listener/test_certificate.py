"""What a certificate says of itself."""

import pytest

from pubqueue.faces.listener.tls import subject_of


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ((), ""),
        (((("commonName", "etl"),),), "CN=etl"),
        (((("organizationName", "example"),), (("commonName", "etl"),)), "CN=etl,O=example"),
        (((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b"),
        (((("commonName", 'a,b+"c\\'),),), r"CN=a\,b\+\"c\\"),
        (((("commonName", " a "),),), r"CN=\ a\ "),
        (((("commonName", "#a"),),), r"CN=\#a"),
        (((("commonName", "#"),),), r"CN=\#"),
        (((("emailAddress", "x"),),), "emailAddress=x"),
    ],
)
def test_a_subject_is_text(subject, text):
    assert subject_of({"subject": subject}) == text
