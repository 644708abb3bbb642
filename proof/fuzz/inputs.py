"""What is sent to the faces: of real frames, requests and calls, with anything changed, and cut anywhere. Each follows from the seed."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from harness.servers.users import RIGHT

from proof.fuzz.house import OWN, STRANGERS, token_of
from proof.fuzz.requests import Served, requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

PIECES: Final = (
    *(b"", b"\0", b"\n", b"\r\n", b"\n\n", b":", b"\\", b"\\c", b"\\x", b"\xff", b"\xc3", b"\xed\xa0\x80"),
    *(b"9" * 30, b"-1", b"1e9", b"x" * 300, b" ", b"\t", b"%00", b"\xef\xbb\xbf", b"<", b"]]>", b"{"),
)  # fmt: skip
"""What is put in anywhere."""

COMMANDS: Final = tuple(
    b"SEND SUBSCRIBE UNSUBSCRIBE ACK NACK TOUCH BEGIN COMMIT ABORT DISCONNECT CONNECT STOMP MESSAGE"
    b" RECEIPT ERROR send NOPE".split()
)
PLACES: Final = tuple(
    b"/queue/jobs /queue/jobs /queue/jobs /topic/news /topic/news /queue/closed /queue/dead /queue/none"
    b" /queue/honest /topic/honest /queue/ / . ./count jobs /queue/jobs/ /queue/j%6fbs /queue/\\cx /temp-queue/a"
    b" /topic/none /queue/projects/p/subscriptions/orders /exchange/a /amq/queue/jobs".split()
)
HEADERS: Final[dict[bytes, Sequence[bytes]]] = {
    b"destination": PLACES,
    b"id": (b"0", b"1", b"s", b"", b"00000001", b"00000009", b"x" * 200, b"\\n"),
    b"receipt": (b"r", b"r", b"x" * 1_000, b""),
    b"ack": (b"auto", b"client", b"client-individual", b"client-individual", b"none"),
    b"transaction": (b"t", b"u", b""),
    b"message-id": (b"jobs/a", b"1", b"%", b""),
    b"subscription": (b"0", b"1", b"s"),
    b"item-id": (b"a", b"b", b"a\\nb", b"x" * 2_000, b"\xc3\xa4"),
    b"content-type": (b"text/plain", b"application/xml", b"/", b"application/json; charset=x"),
    b"content-length": (b"0", b"3", b"4", b"99999999999", b"-1", b"x", b"0003"),
    b"group": (b"g", b"", b"x" * 400),
    b"priority": (b"4", b"-1", b"9", b"x"),
    b"delay": (b"0", b"1", b"1e9", b"-1", b"nan"),
    b"expires": (b"0", b"1", b"9999999999999", b"x"),
    b"ttl": (b"1", b"x"),
    b"prefetch-count": (b"1", b"10", b"0", b"-1", b"9" * 20),
    b"selector": (b"a = 1", b"((((", b"a LIKE '%' ESCAPE '\\'"),
    b"correlation-id": (b"c",),
    b"reply-to": (b"/queue/jobs", b"/temp-queue/a", b"x"),
    b"browser": (b"true", b"false"),
    b"durable": (b"true",),
    b"requeue": (b"true", b"false", b"x"),
    b"extend": (b"1", b"1e9", b"-1"),
    b"accept-version": (b"1.2", b"1.0,1.1,1.2", b"2.0", b""),
    b"heart-beat": (b"0,0", b"1,1", b"-1,x"),
    b"x-anything": (b"a", b"\\c\\n"),
}
USUAL: Final = {
    b"SEND": (b"destination", b"receipt"),
    b"SUBSCRIBE": (b"destination", b"id", b"receipt", b"ack"),
    b"UNSUBSCRIBE": (b"id", b"receipt"),
    b"ACK": (b"id", b"receipt"),
    b"NACK": (b"id", b"receipt"),
    b"TOUCH": (b"id", b"receipt"),
    b"BEGIN": (b"transaction", b"receipt"),
    b"COMMIT": (b"transaction", b"receipt"),
    b"ABORT": (b"transaction", b"receipt"),
    b"DISCONNECT": (b"receipt",),
}
BODIES: Final = (b"", b"a", b"abc", b"\xff\xfe", b"<a xmlns='urn:x'/>", b"{}", b"x" * 5_000)
BEGINNINGS: Final = (
    b"SUBSCRIBE\ndestination:/queue/jobs\nid:s\nack:client-individual\nreceipt:r\n\n\0",
    b"SUBSCRIBE\ndestination:/topic/news\nid:0\nreceipt:r\n\n\0",
    b"SEND\ndestination:/queue/jobs\nreceipt:r\n\nabc\0",
    b"BEGIN\ntransaction:t\n\n\0",
)
CURB: Final = (
    b"SUBSCRIBE\ndestination:.\nid:s\nack:client-individual\nreceipt:r\n\n\0",
    b"SUBSCRIBE\ndestination:./count\nid:c\nreceipt:r\n\n\0",
    b"SEND\ndestination:.\nreceipt:r\n\nabc\0",
    b"SEND\ndestination:.\nreceipt:r\ncontent-length:3\n\na\0\n\0",
)
"""Frames without which those after them would mostly be refused."""
ACK_NEWEST: Final = b"@ack@"
"""Stands for the name of the message that the connection has been given last."""


def peer(random: Random) -> str:
    """Return the address of a client: of loopback, for nobody else may use credentials without TLS. Each may be wrong a few times only."""
    return f"127.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(256)}"


def changed(random: Random, data: bytes) -> bytes:
    """Return the bytes with something changed: a part left out or doubled, a byte turned, a piece put in."""
    at, behind = sorted(random.choices(range(len(data) + 1), k=2))
    behind = min(behind, at + random.choice((1, 4, 64)))
    part = data[at:behind]
    turned = bytes(byte ^ 1 << random.randrange(8) for byte in part[:1]) + part[1:]
    middle = random.choice(
        (b"", part * 2, turned, random.choice(PIECES), part + random.choice(PIECES))
    )
    return data[:at] + middle + data[behind:]


def cut(random: Random, data: bytes) -> list[bytes]:
    """Return the bytes in pieces."""
    if random.random() < 0.6:
        return [data]
    cuts = sorted(random.choices(range(len(data) + 1), k=random.choice((1, 1, 2, 5))))
    pairs = zip([0, *cuts], [*cuts, len(data)], strict=True)
    return [data[one:other] for one, other in pairs if one < other]


# Streams of STOMP.


def login(random: Random) -> bytes:
    """Return a CONNECT of a user, mostly a right one."""
    name = random.choice(STRANGERS).encode()
    version = random.choice((b"1.2", b"1.2", b"1.1", b"1.0,1.1", b"1.0,1.1,1.2"))
    password = RIGHT.encode() if random.random() < 0.97 else random.choice(PIECES)
    frame = b"CONNECT\naccept-version:%s\nhost:x\nlogin:%s\npasscode:%s\n\n\0" % (
        *(version, name),
        password,
    )
    return frame if random.random() < 0.93 else changed(random, frame)


def frames(random: Random) -> bytes:
    """Return a few frames, some of them spoilt."""
    some = [_frame(random) for _ in range(random.choice((1, 1, 2, 3, 6)))]
    if random.random() < 0.5:
        some[:0] = random.choices(BEGINNINGS, k=random.choice((1, 2, 3)))
    stream = b"".join(some)
    return changed(random, stream) if random.random() < 0.4 else stream


def _frame(random: Random) -> bytes:
    usual = random.random() < 0.85
    command = random.choice(tuple(USUAL) if usual else COMMANDS)
    names = [name for name in USUAL.get(command, ()) if random.random() < 0.98]
    names += random.choices(tuple(HEADERS), k=random.choice((0, 0, 1, 2, 4)))
    lines = [b"%s:%s\n" % (name, random.choice(HEADERS[name])) for name in names]
    if command in {b"ACK", b"NACK", b"TOUCH"} and random.random() < 0.7:
        lines.insert(0, b"id:" + ACK_NEWEST + b"\n")
    body = random.choice(BODIES) if command == b"SEND" or random.random() < 0.05 else b""
    return b"%s\n%s\n%s\0" % (command, b"".join(lines), body)


def curb_frames(random: Random) -> bytes:
    """Return a stream for curb: it has one queue, no login, and few frames."""
    begin = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
    begin = begin if random.random() < 0.93 else changed(random, begin)
    some = [_frame(random) for _ in range(random.choice((1, 1, 2, 3, 6)))]
    if random.random() < 0.5:
        some[:0] = random.choices(CURB, k=random.choice((1, 2, 3)))
    stream = b"".join(some)
    return begin + (changed(random, stream) if random.random() < 0.4 else stream)


# WebSockets.

_KEY: Final = b"dGhlIHNhbXBsZSBub25jZQ=="


def upgrade(random: Random) -> bytes:
    """Return the request for a WebSocket, mostly a right one."""
    request = (
        b"GET /stomp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: " + _KEY + b"\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
    )
    return request if random.random() < 0.95 else changed(random, request)


def messages(random: Random, stream: bytes) -> bytes:
    """Return the stream as messages of WebSocket, in parts and with odd frames between them."""
    made = bytearray()
    for part in cut(random, stream):
        code = random.choice((1, 2, 2))
        if random.random() < 0.1:
            made += _message(random, random.choice((0, 3, 8, 9, 10, 15)), random.choice(PIECES))
        if random.random() < 0.2 and len(part) > 1:
            made += _message(random, code, part[: len(part) // 2], is_last=False)
            made += _message(random, 0, part[len(part) // 2 :])
        else:
            made += _message(random, code, part)
    return changed(random, bytes(made)) if random.random() < 0.25 else bytes(made)


def _message(random: Random, code: int, data: bytes, *, is_last: bool = True) -> bytes:
    head = bytes([code | (0x80 if is_last else 0) | random.choice((0,) * 20 + (0x40, 0x10))])
    is_masked = random.random() < 0.98
    size = len(data) if random.random() < 0.98 else random.choice((0, 125, 1 << 16, 1 << 62))
    if size < 126:
        head += bytes([size | 0x80 * is_masked])
    elif size < 1 << 16:
        head += bytes([126 | 0x80 * is_masked]) + struct.pack(">H", size)
    else:
        head += bytes([127 | 0x80 * is_masked]) + struct.pack(">Q", size)
    if not is_masked:
        return head + data
    mask = random.randbytes(4)
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


# HTTP.


KNOWN: Final = 200
"""How many links of answers are remembered."""
FORMS: Final = (
    *(b"acknowledge=true", b"acknowledge=false", b"done=true", b"", b"<a xmlns='urn:x'/>", b"{}"),
    *(b"name=s&durable=true", b"<queue name='q2'/>", b"max=2", b"wait=0.01"),
)


def http(random: Random, parts: Sequence[str], known: Sequence[bytes] = ()) -> Iterator[bytes]:
    """Yield requests to these parts: with odd fields, spoilt, and several on a connection; and some to the `known` paths."""
    sender = Served(None, 80)
    sender.bearers = [f"Bearer {token_of(name)}".encode() for name in STRANGERS]
    rows = requests(random, sender, parts)
    for row in rows:
        shape, request = random.random(), row
        if known and random.random() < 0.4:
            request = _followed(random, random.choice(known), random.choice(sender.bearers))
        if shape < 0.15:
            yield changed(random, request)
        elif shape < 0.2:  # two on one connection
            yield request.replace(b"Connection: close\r\n", b"") + next(rows)
        elif shape < 0.23:
            yield request.replace(b"jobs", OWN.encode())
        else:
            yield request


def _followed(random: Random, path: bytes, bearer: bytes) -> bytes:
    """Return a request to where a link of an answer has led."""
    method = random.choice((b"GET", b"POST", b"POST", b"PUT", b"DELETE", b"HEAD"))
    body = random.choice(FORMS) if method in {b"POST", b"PUT"} else b""
    kind = random.choice((b"application/x-www-form-urlencoded", b"application/xml", b"text/plain"))
    fields = (b"Authorization", bearer), (b"Content-Type", kind), (b"Accept-Wait", b"0")
    lines = b"".join(b"%s: %s\r\n" % one for one in (*fields, (b"Connection", b"close")))
    size = len(body), body
    return b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n%s" % (
        *(method, path, lines),
        *size,
    )


def rpc_in_json(random: Random, path: str, body: str) -> bytes:
    """Return a call of `v1beta1a`, mostly a right one."""
    data = body.encode()
    bearer = b"Bearer " + token_of(random.choice(STRANGERS)).encode()
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\n"
    head = head % (path.encode(), bearer)
    shape = random.random()
    data = changed(random, data) if shape < 0.2 else data
    made = b"%sConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (head, len(data), data)
    return changed(random, made) if shape > 0.9 else made
