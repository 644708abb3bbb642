"""Logging in with TLS that is right, and each way in which it is wrong, at real servers: what is said, and at once."""

import asyncio
import ssl
from xml.etree import ElementTree as ET

import pytest
import pytest_asyncio
from harness.servers.ejabberd import Ejabberd
from harness.servers.tls import certify, expire, openssl, secure

from pubqueue.loopback import free_ports
from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.client.tls_faults import Trust, of_features, of_handshake
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import LoginFailed, ServerUnreachable

e2e = pytest.mark.e2e
NEVER = 600
"""Seconds of patience that no test has: what is wrong is said at once."""


def client_of(port, tls, ca_file=None, **settings):
    return make_client(
        "bot@localhost", "secret", host="127.0.0.1", port=port, tls=tls, ca_file=ca_file, **settings
    )


async def failure(client, kind=LoginFailed):
    with pytest.raises(LoginFailed) as caught:
        await login(client, timeout=NEVER)
    assert not client.is_connected()
    assert not client.is_connecting()
    assert type(caught.value) is kind
    return str(caught.value)


async def joined(key, certificate):
    """Return a file of both, as ejabberd reads it."""
    both = certificate.with_suffix(".pem")
    both.write_text(certificate.read_text() + key.read_text())
    return both


# --- a right one, and one that is not known ------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured():
    """A server whose certificate is right, its authority, and its port for direct TLS."""
    async with Prosody(modules=("tls",)) as server:
        await server.account("bot", "secret")
        (direct,) = free_ports(1)
        certificate = await secure(server, f"c2s_direct_tls_ports = {{ {direct} }}\n")
        yield server, str(certificate), direct


def port_of(secured, tls):
    server, _, direct = secured
    return direct if tls == "direct" else server.c2s_port


@e2e
@pytest.mark.parametrize("tls", ["required", "direct"])
async def test_a_trusted_server_is_logged_in_to_under_tls(secured, tls):
    client = client_of(port_of(secured, tls), tls, secured[1])
    await login(client)
    assert isinstance(client.socket, ssl.SSLObject)
    await logout(client)


@e2e
@pytest.mark.parametrize("tls", ["required", "direct"])
async def test_a_certificate_that_is_not_known_is_to_be_named(secured, tls):
    port = port_of(secured, tls)
    assert await failure(client_of(port, tls)) == (
        f"TLS with localhost at 127.0.0.1:{port} failed: the certificate is self-signed."
        " If you trust it, set ca_file to a file with it."
    )


@e2e
async def test_the_file_that_lacks_it_is_named_as_its_user_names_it(secured, tmp_path):
    _, other = await certify(tmp_path, "localhost")
    client = client_of(secured[0].c2s_port, "required", str(other), ca_setting="tlsCaFile")
    said = await failure(client)
    assert said.endswith(
        f" the certificate is self-signed. {other}, the file of tlsCaFile, does not contain it."
    )


@e2e
async def test_a_server_with_tls_takes_who_wants_none_if_it_may(secured):
    client = client_of(secured[0].c2s_port, "off")
    await login(client)
    await logout(client)


# --- certificates that are wrong -----------------------------------------------------------------------


async def said_of(key, certificate, ca_file):
    """Return what is said of a server with this certificate."""
    identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity.load_cert_chain(certificate, key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=identity)
    async with server:
        port = server.sockets[0].getsockname()[1]
        said = await failure(client_of(port, "direct", ca_file and str(ca_file)))
    return said.removeprefix(f"TLS with localhost at 127.0.0.1:{port} failed: ")


async def test_a_certificate_for_another_name(tmp_path):
    key, certificate = await certify(tmp_path, "elsewhere.test")
    assert await said_of(key, certificate, certificate) == (
        "the certificate is not for localhost. Give the server one for that name."
    )


async def test_a_certificate_that_has_expired(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    await expire(key, certificate)
    assert await said_of(key, certificate, certificate) == (
        "the certificate has expired."
        " Renew it on the server; if it is valid there, correct the clock of this machine."
    )


async def test_a_certificate_that_is_not_valid_yet(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    await openssl(f"req -new -key {key} -subj /CN=localhost -out {tmp_path}/request")
    (tmp_path / "index").touch()
    (tmp_path / "serial").write_text("01")
    (tmp_path / "ca.cnf").write_text(CA.format(folder=tmp_path))
    await openssl(
        f"ca -batch -selfsign -config {tmp_path}/ca.cnf -in {tmp_path}/request -keyfile {key}"
        f" -startdate 29990101000000Z -enddate 29990201000000Z -notext -out {certificate}"
    )
    assert await said_of(key, certificate, certificate) == (
        "the certificate is not valid yet."
        " Correct the clock of this machine, or of the one that made it."
    )


async def test_a_certificate_that_only_older_pythons_accept(tmp_path, monkeypatch):
    authority_key, authority = await certify(tmp_path, "authority.test")
    extensions = "subjectAltName=DNS:localhost\nauthorityKeyIdentifier=keyid\n"
    key, certificate = await signed_by(authority_key, authority, tmp_path, extensions)
    monkeypatch.setattr(ssl, "create_default_context", strictly(ssl.create_default_context))
    assert await said_of(key, certificate, authority) == (
        "the certificate, or that of its authority, does not conform to RFC 5280"
        " (CA cert does not include key usage extension), as Python 3.13 and later require."
        " Make it anew with the extensions of that standard."
    )


async def signed_by(authority_key, authority, folder, extensions=""):
    """Make a certificate for localhost that an authority signs; return its key and itself."""
    key, request, certificate = folder / "key", folder / "request", folder / "certificate"
    (folder / "extensions").write_text(extensions)
    await openssl(
        f"req -new -newkey rsa:2048 -nodes -subj /CN=localhost -keyout {key} -out {request}"
    )
    await openssl(
        f"x509 -req -in {request} -CA {authority} -CAkey {authority_key} -days 1"
        f" -extfile {folder}/extensions -out {certificate}"
    )
    return key, certificate


def strictly(create):
    """Return a maker of contexts that look as those of Python 3.13 and later do."""

    def creating(*args, **settings):
        context = create(*args, **settings)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    return creating


CA = """
[ca]
default_ca = here
[here]
dir = {folder}
new_certs_dir = {folder}
database = {folder}/index
serial = {folder}/serial
default_md = sha256
policy = any
x509_extensions = extensions
[any]
commonName = supplied
[extensions]
basicConstraints = critical, CA:TRUE
keyUsage = critical, digitalSignature, keyCertSign
subjectKeyIdentifier = hash
"""


@pytest.mark.parametrize("known", [False, True])
async def test_a_certificate_of_an_unknown_authority(tmp_path, known):
    authority_key, authority = await certify(tmp_path, "authority.test")
    key, certificate = await signed_by(authority_key, authority, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    _, foreign = await certify(other, "localhost")
    said = await said_of(key, certificate, foreign if known else None)
    what = "the certificate of the authority"
    assert said == (
        f"the certificate is of an unknown authority. {foreign}, the file of ca_file, does not contain {what}."
        if known
        else f"the certificate is of an unknown authority. If you trust it, set ca_file to a file with {what}."
    )


async def test_a_server_that_closes_during_the_handshake():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # it has no certificate
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await failure(client_of(port, "direct"), ServerUnreachable) == (
            f"localhost at 127.0.0.1:{port} cannot be reached: it closes the connection during the handshake."
        )


def test_any_other_fault_is_told_in_the_words_of_openssl():
    trust = Trust("localhost", None)
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = 23, "certificate revoked"
    assert of_handshake(error, trust, "") == "certificate revoked."
    error = ssl.SSLError()
    error.reason = "NO_CIPHERS_AVAILABLE"
    assert of_handshake(error, trust, "") == "no ciphers available."
    error.reason = None
    assert of_handshake(error, trust, "") == "the handshake failed."


# --- what server and client want -------------------------------------------------------------------------


@e2e
async def test_a_server_that_offers_no_tls(prosody):
    where = f"localhost at 127.0.0.1:{prosody.c2s_port}"
    assert await failure(client_of(prosody.c2s_port, "required")) == (
        f"{where} offers no TLS, and this client logs in only under TLS."
        " Give the server a certificate for localhost, or set tls=off."
    )
    assert await failure(client_of(prosody.c2s_port, "direct")) == (
        f"TLS with {where} failed: it does not speak TLS there. If the port is one for STARTTLS,"
        " as 5222 is, leave tls=direct out; direct TLS is usually at 5223."
    )


@e2e
async def test_prosody_that_has_no_certificate_for_a_host():
    async with Prosody(modules=("tls",)) as server:
        config = server.folder / "prosody.cfg.lua"
        text = config.read_text().replace("c2s_require_encryption = false", "")
        config.write_text(f'certificates = "{server.folder}/nowhere"\n{text}')
        await server.restart()
        said = await failure(client_of(server.c2s_port, "required"))
        assert "failed: it ended the handshake (sslv3 alert handshake failure)." in said
        assert said.endswith(
            " Perhaps it has no certificate for localhost; its log has the reason."
        )


@e2e
async def test_prosody_that_requires_tls():
    async with Prosody(modules=("tls",)) as server:
        config = server.folder / "prosody.cfg.lua"
        config.write_text(config.read_text().replace("c2s_require_encryption = false", ""))
        await secure(server)
        said = await failure(client_of(server.c2s_port, "off"))
        assert said == f"localhost at 127.0.0.1:{server.c2s_port} requires TLS: leave tls=off out."


@e2e
@pytest.mark.parametrize("as_of_debian", [True, False])
async def test_ejabberd_with_tls(tmp_path, as_of_debian):
    key, certificate = await certify(tmp_path, "localhost")
    more = {"starttls_required": True} if as_of_debian else {"tls": True}
    both = await joined(key, certificate)
    async with Ejabberd(certificate=both, c2s=more) as server:
        await server.account("bot", "secret")
        port, where = server.c2s_port, f"localhost at 127.0.0.1:{server.c2s_port}"
        client = client_of(port, "required" if as_of_debian else "direct", str(certificate))
        await login(client)
        await logout(client)
        said = await failure(client_of(port, "required" if as_of_debian else "direct"))
        assert "the certificate is self-signed. If you trust it," in said
        if as_of_debian:
            said = await failure(client_of(port, "off"))
            assert said == f"{where} requires TLS: leave tls=off out."
            assert "it does not speak TLS there." in await failure(client_of(port, "direct"))
            return
        for wrong in ("off", "required"):
            await closed_at(port, wrong)


@e2e
@pytest.mark.parametrize("tls", ["off", "required"])
async def test_prosodys_port_for_direct_tls(secured, tls):
    await closed_at(secured[2], tls)


async def closed_at(port, tls):
    assert await failure(client_of(port, tls), ServerUnreachable) == (
        f"localhost at 127.0.0.1:{port} closed the connection before the session started."
        " If the port is one for direct TLS, as 5223 is, set tls=direct."
    )


# --- what is read of the features -------------------------------------------------------------------------

STARTTLS = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
REQUIRED = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>"
PLAIN = (
    "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>"
)


@pytest.mark.parametrize(
    ("features", "wants_tls", "on_this_machine", "said"),
    [
        (STARTTLS + PLAIN, True, False, None),
        (REQUIRED, True, True, None),
        (PLAIN, True, True, "a certificate for example.org, or set tls=off."),
        (PLAIN, True, False, "Give the server a certificate for example.org."),
        ("", True, True, "Give the server a certificate for example.org."),
        (PLAIN, False, True, None),
        (STARTTLS + PLAIN, False, True, None),
        (REQUIRED, False, True, "it requires TLS: leave tls=off out."),
        (REQUIRED + PLAIN, False, True, "it requires TLS: leave tls=off out."),
        (STARTTLS, False, True, "it requires TLS: leave tls=off out."),
        ("", False, True, "it offers no way to log in without TLS."),
    ],
)
def test_the_features_tell_whether_there_is_a_way(features, wants_tls, on_this_machine, said):
    element = ET.fromstring(f"<features>{features}</features>")
    found = of_features(
        element, "it", "example.org", wants_tls=wants_tls, on_this_machine=on_this_machine
    )
    assert found == said if said is None else found.endswith(said)
