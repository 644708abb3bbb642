"""TLS: certificates from files, read again without dropping anybody; who cannot agree upon it costs nobody else anything; and addresses as they are configured."""

import asyncio
import socket
import ssl
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from faces.listener.echoing import FREE, echoing
from harness.patience import LOOK, turns, until
from harness.servers.tls import certify, expire
from structlog.testing import capture_logs

from pubqueue.faces.listener import Bounds, Place, Tls, TlsError, TlsFiles, listener, places
from pubqueue.faces.listener.tls import AT_ONCE, HEAD, set_options, subject_of


@pytest.fixture
async def files(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    return TlsFiles(str(certificate), str(key))


def trust(certificate, own=None):
    context = ssl.create_default_context(cafile=certificate)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return {"ssl": context, "server_hostname": "localhost"}


def write(file, text):
    Path(file).write_text(text)


def shown(client):
    return dict(part[0] for part in client.writer.get_extra_info("peercert")["subject"])


async def test_a_client_is_served_over_tls(files):
    async with echoing(tls=Tls(files, face="echo")) as it:
        client = await it.client(**trust(files.certificate))
        assert await client.ask("a") == "a"
        assert it.made[0].connection.is_private
        assert it.made[0].connection.subject == ""
        await client.close()


async def test_a_certificate_is_read_again_and_open_connections_stay(files, tmp_path):
    tls = Tls(files, face="echo")
    first = tls.certificate.ends
    async with echoing(tls=tls) as it:
        assert it.counts.certificate_ends == first
        before = await it.client(**trust(files.certificate))
        assert await before.ask("a") == "a"
        await certify(tmp_path, "localhost", "O=second", days=2)
        await it.listener.reload()
        assert it.counts.certificate_ends == tls.certificate.ends > first
        after = await it.client(**trust(files.certificate))
        assert await after.ask("b") == "b"
        assert await before.ask("c") == "c"
        assert "organizationName" in shown(after)
        assert "organizationName" not in shown(before)
        for client in (before, after):
            await client.close()


@pytest.mark.parametrize("broken", ["", "rubbish", "-----BEGIN CERTIFICATE-----\nrubbish\n"])
async def test_a_broken_file_leaves_the_old_one_and_is_logged(files, broken):
    async with echoing(tls=Tls(files, face="echo")) as it:
        trusted = trust(files.certificate)
        write(files.certificate, broken)
        with capture_logs() as log:
            await it.listener.reload()
        assert [(line["event"], line["face"]) for line in log] == [("tls.refused", "echo")]
        client = await it.client(**trusted)
        assert await client.ask("a") == "a"
        await client.close()


async def test_a_client_without_tls_is_refused_and_no_other(files):
    async with echoing(tls=Tls(files, face="echo")) as it:
        for words in ("GET / HTTP/1.1\r\n", "\0" * 100):
            assert b"GET" not in await (await it.client()).rest(words)
        await until(lambda: it.ended == {"handshake": 2})
        client = await it.client(**trust(files.certificate))
        assert await client.ask("a") == "a"
        await client.close()


async def test_a_client_that_does_not_finish_the_handshake_in_time_is_refused(files):
    bounds = Bounds(handshake=0.05, login=0)
    async with echoing(bounds, tls=Tls(files, face="echo")) as it:
        client = await it.client()
        assert await client.line() == ""
        await until(lambda: it.ended == {"handshake": 1})
        assert it.counts.open == 0


async def test_a_handshake_byte_by_byte_has_no_more_time(files):
    bounds = Bounds(handshake=0.05, login=0)
    async with echoing(bounds, tls=Tls(files, face="echo")) as it:
        client = await it.client()
        client.writer.write(b"\x16\x03\x01\x40\x00\x01")  # of a record of 16 KiB
        ending = asyncio.create_task(client.line())

        def one_more_byte():
            if not client.writer.is_closing():  # it may be closed before the line has ended
                client.writer.write(b"\0")
            return ending.done()

        await until(one_more_byte, every=LOOK)
        assert ending.result() == ""
        await until(lambda: it.ended == {"handshake": 1})
        assert it.counts.open == 0


def hello(certificate):
    """Return the first message of a handshake."""
    out = ssl.MemoryBIO()
    client = trust(certificate)["ssl"].wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def connected(sockets, port, peer):
    client = sockets.enter_context(socket.socket())
    client.bind((peer, 0))
    client.connect(("127.0.0.1", port))
    return client


@pytest.fixture
async def begun(monkeypatch):
    """The addresses and ports whose handshakes have begun, in their order, each with the turn of the loop in which it has."""
    found, turn, loop = {}, 0, asyncio.get_running_loop()

    def tick():
        nonlocal turn, ticking
        turn += 1
        ticking = loop.call_soon(tick)

    def noting(client):
        found[client.getpeername()] = turn
        set_options(client)

    ticking = loop.call_soon(tick)
    monkeypatch.setattr(listener, "set_options", noting)
    yield found
    ticking.cancel()


async def test_handshakes_that_come_at_the_same_moment_are_begun_a_few_in_a_turn(files, begun):
    """Those of one address hold up no other, although they are all there before it."""
    many, flooder, other = 25 * AT_ONCE, "127.0.0.2", "127.0.0.3"
    message = hello(files.certificate)
    with ExitStack() as sockets:
        async with echoing(tls=Tls(files, face="echo")) as it:
            port = it.listener.addresses[0][1]
            clients = [connected(sockets, port, flooder) for _ in range(many)]
            clients.append(connected(sockets, port, other))
            await until(lambda: it.counts.open == len(clients))
            assert begun == {}, "nothing is done for a client that has sent nothing"
            for client in clients:
                client.sendall(message)
            await until(lambda: len(begun) == len(clients))
            in_a_turn = Counter(begun.values()).most_common(1)[0][1]
            assert in_a_turn <= 2 * AT_ONCE, "what was left of a turn, and the next one"
            peers = [peer for peer, _ in begun]
            assert peers.index(other) <= 4 * AT_ONCE


async def test_a_handshake_waits_until_its_first_message_is_whole(files, begun):
    message = hello(files.certificate)
    with ExitStack() as sockets:
        async with echoing(tls=Tls(files, face="echo")) as it:
            port = it.listener.addresses[0][1]
            for at in (1, HEAD, len(message) - 1):
                client = connected(sockets, port, "127.0.0.2")
                client.sendall(message[:at])
                await turns()
                assert begun == {}
                client.sendall(message[at:])
                await until(lambda: begun)
                client.settimeout(0)
                assert await asyncio.get_running_loop().sock_recv(client, 9), "it is answered"
                begun.clear()


async def test_an_unfinished_handshake_does_not_delay_the_end(files):
    async with echoing(tls=Tls(files, face="echo")) as it:
        client = await it.client()
        await until(lambda: it.counts.open == 1)
        await it.listener.stop()
        assert await client.line() == ""
        assert it.counts.open == 0
        assert it.made == []


async def test_a_client_may_show_a_certificate_of_the_client_authority_and_no_other(
    files, tmp_path
):
    key, certificate = await certify(tmp_path, "etl", "O=example")
    own = TlsFiles(str(certificate), str(key))
    tls = Tls(TlsFiles(files.certificate, files.key, own.certificate), face="echo")
    async with echoing(tls=tls) as it:
        known = await it.client(**trust(files.certificate, own))
        assert await known.ask("a") == "a"
        assert it.made[0].connection.subject == "O=example,CN=etl"
        plain = await it.client(**trust(files.certificate))
        assert await plain.ask("a") == "a"
        assert it.made[1].connection.subject == ""
        stranger = await it.client(**trust(files.certificate, files))
        assert await stranger.line() == ""
        await until(lambda: it.ended == {"handshake": 1})
        for client in (known, plain):
            await client.close()


async def test_a_client_whose_certificate_has_expired_is_refused_and_no_other(files, tmp_path):
    key, certificate = await certify(tmp_path, "etl", "O=example")
    other_key, other = await certify(tmp_path, "bee")
    both = tmp_path / "both.crt"
    for expired in (False, True):
        if expired:
            await expire(key, certificate)
        write(both, certificate.read_text() + other.read_text())
        tls = Tls(TlsFiles(files.certificate, files.key, str(both)), face="echo")
        async with echoing(tls=tls) as it:
            own = trust(files.certificate, TlsFiles(str(certificate), str(key)))
            client = await it.client(**own)
            assert await client.ask("a") == ("" if expired else "a")
            await until(lambda it=it, expired=expired: it.ended == {"handshake": 1} or not expired)
            bee = await it.client(**trust(files.certificate, TlsFiles(str(other), str(other_key))))
            assert await bee.ask("b") == "b"


async def test_a_slow_reader_over_tls_is_bounded_too(files):
    async with echoing(Bounds(login=0), tls=Tls(files, face="echo")) as it:
        client = await it.client(**trust(files.certificate))
        assert await client.ask("a") == "a"
        slow, waiting = it.made[0], 0
        while slow.connection.write(b"x" * 100_000):
            waiting = max(waiting, slow.connection.unsent)
            await turns()
        assert 0 < waiting <= Bounds().unsent
        await slow.lost.wait()
        assert it.ended == {"unread": 1}


async def test_files_that_cannot_be_used_are_one_sentence(files, tmp_path):
    other, _ = await certify(tmp_path, "other")
    secret = tmp_path / "secret.key"
    command = f"openssl ec -in {files.key} -aes128 -passout pass:word -out {secret}"
    made = await asyncio.create_subprocess_exec(*command.split(), stderr=asyncio.subprocess.DEVNULL)
    assert await made.wait() == 0
    missing = str(tmp_path / "nothing.pem")
    for given, said in (
        (TlsFiles(missing, files.key), r"nothing.pem cannot be read: No such file"),
        (TlsFiles(files.certificate, missing), r"nothing.pem cannot be read: No such file"),
        (TlsFiles(files.certificate, str(other)), r"other.key does not belong to the certificate"),
        (TlsFiles(files.certificate, str(secret)), r"secret.key has a passphrase"),
        (TlsFiles(files.key, files.key), r"are not a certificate and key in PEM format"),
        (
            TlsFiles(files.certificate, files.key, files.key),
            r"contains no certificate in PEM format",
        ),
    ):
        with pytest.raises(TlsError, match=said):
            Tls(given, face="echo")


@pytest.mark.parametrize(
    ("days", "event", "level", "said"),
    [
        (-1, "tls.certificate_invalid", "error", "is not valid before"),
        (0.1, "tls.certificate_ends", "warning", "expires on"),
        (2, "tls.certificate_invalid", "error", "expired on"),
    ],
)
async def test_a_certificate_that_is_not_valid_is_logged_at_the_start(
    files, days, event, level, said
):
    begins = Tls(files, face="echo").certificate.begins
    with capture_logs() as log:
        Tls(files, face="echo", now=lambda: begins + days * 86_400)
    loaded, line = log
    assert loaded["event"] == "tls.loaded"
    assert (line["event"], line["log_level"], line["face"]) == (event, level, "echo")
    assert line["why"].startswith(said)


async def test_an_expired_certificate_does_not_replace_one_that_is_valid(files, tmp_path):
    begins = Tls(files, face="echo").certificate.begins
    now = [begins]
    tls = Tls(files, face="echo", now=lambda: now[0])
    context = tls.context
    key, certificate = await certify(tmp_path, "later", days=30)
    now[0] += 2 * 86_400
    tls.reload(TlsFiles(str(certificate), str(key)))
    assert tls.certificate.subject == "CN=later"
    later = tls.context
    assert later is not context
    with capture_logs() as log:
        tls.reload(files)
    assert tls.context is later
    assert [line["event"] for line in log] == ["tls.refused"]
    assert "expired on" in log[0]["why"]


async def test_an_expired_certificate_is_logged_each_day(files):
    tls = Tls(files, face="echo")
    async with echoing(FREE, tls=tls) as it:
        with capture_logs() as log:
            it.pass_time(86_399)
            assert log == []
            it.pass_time(2)
        assert [line["event"] for line in log] == ["tls.certificate_ends"]


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("9254", [("127.0.0.1", 9254)]),
        ("10.0.0.5:9254", [("10.0.0.5", 9254)]),
        ("[::1]:9254", [("::1", 9254)]),
        ("*:1", [("", 1)]),
        (":1", [("127.0.0.1", 1)]),
        ("a.example:1, [::]:2,3", [("a.example", 1), ("::", 2), ("127.0.0.1", 3)]),
    ],
)
def test_a_setting_has_several_addresses(text, found):
    assert [(one.host, one.port) for one in places(text)] == found


@pytest.mark.parametrize("text", ["host", "host:", "host:70000", "::1:80", "a:1,b", "a:-1", "a:¹"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="must"):
        places(text)


def test_an_address_is_shown_as_it_is_written():
    assert [Place("::1", 5).shown, Place("a", 5).shown] == ["[::1]:5", "a:5"]
