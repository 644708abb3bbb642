"""The tables of STOMP, stated again as the texts of the three versions have them."""

import pytest

from pubqueue.faces.stomp.codec import (
    COMMANDS,
    UNAGREED,
    V10,
    V11,
    V12,
    VERSIONS,
    Cause,
    HeartBeats,
    Side,
    best_of,
    commands_of,
    heart_beats_of,
)

CLIENTS = {
    V10: "CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK TOUCH BEGIN COMMIT ABORT DISCONNECT",
    V11: "CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK TOUCH BEGIN COMMIT ABORT DISCONNECT",
    V12: "CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK TOUCH BEGIN COMMIT ABORT DISCONNECT",
}
SERVERS = "CONNECTED MESSAGE RECEIPT ERROR"


def test_each_version_has_its_commands():
    for version, names in CLIENTS.items():
        assert set(commands_of(Side.CLIENT, version)) == set(names.split())
        assert set(commands_of(Side.SERVER, version)) == set(SERVERS.split())
    assert commands_of(Side.CLIENT, UNAGREED) == commands_of(Side.CLIENT, V12)


def test_send_message_and_error_alone_have_a_body():  # S10
    assert {name for name, row in COMMANDS.items() if row.has_body} == {"SEND", "MESSAGE", "ERROR"}


def test_connect_and_connected_alone_are_written_without_escapes():
    raw = {name for name, row in COMMANDS.items() if not row.is_escaped}
    assert raw == {"CONNECT", "STOMP", "CONNECTED"}


@pytest.mark.parametrize(
    ("command", "v10", "v11", "v12"),
    [
        ("CONNECT", "", "", ""),
        ("STOMP", "", "", ""),
        ("SEND", "destination", "destination", "destination"),
        ("SUBSCRIBE", "destination", "destination id", "destination id"),
        ("UNSUBSCRIBE", "", "id", "id"),
        ("ACK", "message-id", "message-id subscription", "id"),
        ("NACK", None, "message-id subscription", "id"),
        ("TOUCH", "message-id", "message-id subscription", "id"),
        ("BEGIN", "transaction", "transaction", "transaction"),
        ("COMMIT", "transaction", "transaction", "transaction"),
        ("ABORT", "transaction", "transaction", "transaction"),
        ("DISCONNECT", "", "", ""),
        ("CONNECTED", "", "version", "version"),
        (
            *("MESSAGE", "destination message-id"),
            *("destination message-id subscription", "destination message-id subscription"),
        ),
        ("RECEIPT", "receipt-id", "receipt-id", "receipt-id"),
        ("ERROR", "", "", ""),
    ],
)
def test_each_command_needs_its_headers(command, v10, v11, v12):  # S13
    for version, needed in ((V10, v10), (V11, v11), (V12, v12)):
        found = commands_of(COMMANDS[command].side, version).get(command)
        assert (None if found is None else " ".join(found.needs)) == needed


def test_the_table_of_commands_has_no_other_row():
    assert len(COMMANDS) == 16


def test_versions_differ_as_their_texts_say():
    assert list(VERSIONS) == ["1.0", "1.1", "1.2"]
    assert V12.escapes == {"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"}
    assert V11.escapes == {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
    assert V10.escapes == UNAGREED.escapes == {}
    assert (V10.has_crlf, V11.has_crlf, V12.has_crlf) == (False, False, True)
    assert (V10.is_padded, V11.is_padded, V12.is_padded) == (True, False, False)
    assert V11.modes == V12.modes == {"auto", "client", "client-individual"}
    assert V10.modes == {"auto", "client"}


@pytest.mark.parametrize(
    ("accepted", "offered", "best"),
    [
        ("1.2", VERSIONS.values(), V12),
        ("1.0,1.1,1.2", VERSIONS.values(), V12),
        ("1.2, 1.1", VERSIONS.values(), V12),
        ("1.0,1.1,2.0", VERSIONS.values(), V11),
        (None, VERSIONS.values(), V10),
        (None, [V12], None),
        ("", VERSIONS.values(), None),
        ("2.0", VERSIONS.values(), None),
        ("1.2.0", VERSIONS.values(), None),
        ("1.0,1.1", [V12], None),
        ("1.1,1.2", [V11, V10], V11),
    ],
)
def test_the_highest_common_version_is_agreed_upon(accepted, offered, best):
    assert best_of(accepted, offered) is best


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, HeartBeats()),
        ("0,0", HeartBeats()),
        ("1000,0", HeartBeats(1000, 0)),
        ("999999999,10000", HeartBeats(999_999_999, 10_000)),
        *[
            (value, None)
            for value in (
                "",
                "1000",
                "1,2,3",
                "-1,0",
                "1, 2",
                "a,b",
                "1.5,0",
                "1" * 10 + ",0",
                "\uff11,2",
            )
        ],
    ],
)
def test_a_heart_beat_is_two_numbers(value, found):
    assert heart_beats_of(value) == found


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        (HeartBeats(10_000, 10_000), HeartBeats(0, 0), HeartBeats(0, 0)),
        (HeartBeats(10_000, 10_000), HeartBeats(4000, 0), HeartBeats(0, 10_000)),
        (HeartBeats(10_000, 10_000), HeartBeats(0, 20_000), HeartBeats(20_000, 0)),
        (HeartBeats(0, 10_000), HeartBeats(15_000, 20_000), HeartBeats(0, 15_000)),
    ],
)
def test_beats_are_as_seldom_as_the_slower_side_wants(ours, theirs, agreed):
    assert ours.agreed_with(theirs) == agreed
    assert theirs.agreed_with(ours) == HeartBeats(agreed.wants, agreed.sends)
    assert heart_beats_of(ours.shown) == ours


def test_each_cause_is_the_message_of_an_error():
    assert {cause.name: cause.value for cause in Cause} == {
        "MALFORMED": "malformed frame",
        "UNKNOWN_COMMAND": "unknown command",
        "HEADER_MISSING": "header missing",
        "TOO_MANY_HEADERS": "too many headers",
        "HEADER_TOO_LONG": "header too long",
        "BODY_TOO_LARGE": "body too large",
    }
