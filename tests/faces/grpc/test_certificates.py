"""The subject of a client certificate, as gRPC hands it over: the same that Python's ssl reads."""

import ssl

import pytest
from harness.servers.tls import openssl
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc.callers import subject_of
from pubqueue.faces.listener.tls import read_certificate
from pubqueue.faces.listener.tls import subject_of as text_of


@pytest.mark.parametrize("subject", ["/CN=etl", "/C=DE/O=Exämple,_x/UID=7/CN=a/1.2.3.4=odd"])
async def test_a_subject_is_read_as_ssl_reads_it(tmp_path, subject):  # G40
    key, made = tmp_path / "key.pem", tmp_path / "made.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -utf8 -batch"
    await openssl(f"{words} -subj {subject} -keyout {key} -out {made}")
    found = {"subject": subject_of(made.read_bytes())}
    assert text_of(found) == read_certificate(str(made), str(key)).subject


@given(st.binary(max_size=200))
def test_any_bytes_are_a_certificate_or_have_no_subject(data):
    pem = ssl.DER_cert_to_PEM_cert(data).encode()
    for one in (data, pem):
        assert isinstance(subject_of(one), tuple)
