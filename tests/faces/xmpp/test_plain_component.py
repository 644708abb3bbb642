"""The constructor that stands for slixmpp's leaves behind what slixmpp's would."""

from slixmpp import ComponentXMPP

from pubqueue.faces.xmpp.stream.component import TRUSTS_NOBODY, PlainComponent

ARGUMENTS = ("queue.example.org", "secret")
SERVER = ("127.0.0.1", 5347)

COMPARED = (str, bytes, int, float, bool, dict, list, set, type(None))


def plain_values(stream):
    """Return the attributes whose values can be compared; handlers and filters are objects of the stream's own."""
    return {
        name: value
        for name, value in vars(stream).items()
        if isinstance(value, COMPARED) and not name.endswith(("handlers", "__filters"))
    }


def handlers(stream):
    """Return the names of the stanza handlers, and of the events that are handled with how many handlers."""
    (events,) = (value for name, value in vars(stream).items() if name.endswith("event_handlers"))
    named = [value for name, value in vars(stream).items() if name.endswith("__handlers")]
    stanzas = [handler.name for each in named for handler in each]
    return sorted(stanzas), {event: len(found) for event, found in events.items()}


async def test_it_is_slixmpps_component_but_for_the_tls_context():
    theirs = ComponentXMPP(*ARGUMENTS, *SERVER, fix_error_ns=True)
    ours = PlainComponent(*ARGUMENTS, SERVER)
    assert set(vars(ours)) == set(vars(theirs))
    assert plain_values(ours) == plain_values(theirs)
    assert handlers(ours) == handlers(theirs)
    assert "Handshake" in handlers(ours)[0]
    assert ours.ssl_context is TRUSTS_NOBODY
