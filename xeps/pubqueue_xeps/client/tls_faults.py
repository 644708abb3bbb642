"""What is wrong with the TLS of a server, and what to do about it: sentences for the errors of a login."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

TLS: Final = "urn:ietf:params:xml:ns:xmpp-tls"
SASL: Final = "urn:ietf:params:xml:ns:xmpp-sasl"

# X509_V_ERR_* of OpenSSL's x509_vfy.h; Python has no names for them
_NOT_YET_VALID, _EXPIRED, _SELF_SIGNED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 18, 62, 64
_UNKNOWN_AUTHORITY: Final = frozenset({2, 19, 20, 21})
"""The chain does not end at an authority that is trusted."""
_NOT_BY_THE_STANDARD: Final = frozenset(range(79, 95))
"""An extension is missing or wrong (RFC 5280 4.2). Python 3.13 and later look, older ones do not (`ssl.VERIFY_X509_STRICT`)."""

_NO_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"}
)
"""Reasons of OpenSSL for what it has read instead of a handshake; which one depends on its version."""


class Trust(NamedTuple):
    """What decides whether a certificate is accepted."""

    name: str
    """The name that it has to have."""

    ca_file: str | None
    """The file of authorities, if it is not the system's."""

    setting: str = "ca_file"
    """What the user calls the setting of that file."""


def of_handshake(error: ssl.SSLError, trust: Trust, no_tls: str) -> str:
    """Say why a handshake failed, and what to do: the end of a sentence, and perhaps another one.

    `no_tls` says what to do if the other side does not speak TLS.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error, trust)
    reason = error.reason or ""
    if reason in _NO_TLS:
        return f"it does not speak TLS there. {no_tls}"
    words = reason.replace("_", " ").lower() or "the handshake failed"
    if "ALERT" in reason:
        return f"it ended the handshake ({words}). Perhaps it has no certificate for {trust.name}; its log has the reason."
    return f"{words}."


def _of_certificate(error: ssl.SSLCertVerificationError, trust: Trust) -> str:
    code = error.verify_code
    if code == _SELF_SIGNED:
        return f"the certificate is self-signed. {_make_known('it', trust)}"
    if code in _UNKNOWN_AUTHORITY:
        return f"the certificate is of an unknown authority. {_make_known('the certificate of the authority', trust)}"
    if code == _EXPIRED:
        return "the certificate has expired. Renew it on the server; if it is valid there, correct the clock of this machine."
    if code == _NOT_YET_VALID:
        return "the certificate is not valid yet. Correct the clock of this machine, or of the one that made it."
    if code in {_OTHER_HOST, _OTHER_ADDRESS}:
        return f"the certificate is not for {trust.name}. Give the server one for that name."
    why = (error.verify_message or error.reason or "the certificate is wrong").rstrip(".")
    if code in _NOT_BY_THE_STANDARD:
        return (
            f"the certificate, or that of its authority, does not conform to RFC 5280 ({why}), as Python 3.13 and later require."
            " Make it anew with the extensions of that standard."
        )
    return f"{why}."


def _make_known(what: str, trust: Trust) -> str:
    if trust.ca_file is None:
        return f"If you trust it, set {trust.setting} to a file with {what}."
    return f"{trust.ca_file}, the file of {trust.setting}, does not contain {what}."


def of_features(
    features: Element, server: str, domain: str, *, wants_tls: bool, on_this_machine: bool
) -> str | None:
    """Return what is wrong with the TLS that a server offers before the login; None if nothing is.

    `features` are those of an unencrypted stream (RFC 6120 4.3.2, 5.4.1).
    """
    offer = features.find(f"{{{TLS}}}starttls")
    can_log_in = features.find(f"{{{SASL}}}mechanisms") is not None
    if wants_tls:
        if offer is not None:
            return None
        otherwise = ", or set tls=off" if on_this_machine and can_log_in else ""
        return f"{server} offers no TLS, and this client logs in only under TLS. Give the server a certificate for {domain}{otherwise}."
    if offer is not None and (not can_log_in or offer.find(f"{{{TLS}}}required") is not None):
        return f"{server} requires TLS: leave tls=off out."
    return None if can_log_in else f"{server} offers no way to log in without TLS."
