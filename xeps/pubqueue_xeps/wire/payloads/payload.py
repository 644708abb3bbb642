"""A received payload, as XML or as its value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar, overload
from xml.etree.ElementTree import tostring

from pubqueue_xeps.wire.payloads import decoding
from pubqueue_xeps.wire.payloads.content_type import HEADER
from pubqueue_xeps.wire.payloads.wrapper import WRAPPERS, Body, carried, xml_type
from pubqueue_xeps.wire.payloads.xml_text import xml_text

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

T = TypeVar("T")


def type_of(payload: Element, header: str | None = None) -> str | None:
    """Return the content type of an element; `header` is the header `content-type` of its item."""
    found = _carried(payload, header)
    return xml_type(header) if found is None else found.type


def header_of(headers: Mapping[str, str]) -> str | None:
    """Return the content type among the headers of an item; the names of headers are compared without case."""
    found = [value for name, value in headers.items() if name.lower() == HEADER]
    return found[-1] if found else None


def of_element(payload: Element, header: str | None = None) -> Body:
    """Return what an element carries, as `wrapper.unwrap` does of a stored one; `header` is `content-type`.

    An element that is not a wrapper is XML: its bytes are equivalent to the published ones, not necessarily identical.
    """
    found = _carried(payload, header)
    return found or Body(xml_text(payload).encode(), xml_type(header), "xml")


def _carried(payload: Element, header: str | None) -> Body | None:
    if payload.tag not in WRAPPERS or len(payload):
        return None
    return carried(payload.tag, payload.attrib, payload.text or "", header)


class Content(ABC):
    """Decodes the payload of an item or a reply."""

    __slots__ = ()

    @property
    @abstractmethod
    def payload(self) -> Element | None:
        """The payload as an element, or None if there is none."""

    @property
    def bytes(self) -> bytes:
        """The payload as XML in UTF-8; empty if there is none."""
        return b"" if self.payload is None else tostring(self.payload, "utf-8")

    @property
    def type(self) -> str | None:
        """The content type; without one from the publisher, `application/json` or `application/xml`.

        None if there is no payload, and for bytes without a type.
        """
        payload = self.payload
        return None if payload is None else type_of(payload, self._header())

    @property
    def data(self) -> Any:  # noqa: ANN401 - any JSON value
        """The plain value of the payload: JSON as dict, list, str, int, float, bool or None; text as str, bytes as bytes.

        For a payload that was published with a content type other than `application/json`, this is its text or bytes.
        Text that XML would change, such as a carriage return, is bytes here; `decode(str)` and `decode(bytes)` return
        either form.

        Raises DecodeError for any other payload, and if there is none.
        """
        return decoding.plain(self._there())

    @overload
    def decode(self, wanted: builtins.type[T]) -> T: ...

    @overload
    def decode(self, wanted: Any) -> Any: ...  # noqa: ANN401 - a union, say, which is no class

    def decode(self, wanted: Any) -> Any:
        """Read the payload as a value of type `wanted`; `pubqueue_xeps.wire.payloads.decoding` describes how.

        JSON is read as any type that msgspec supports: structs, dataclasses, `dict[str, int]`,
        `list[Flight]`, str, bytes, datetime, `int | None`. XML is read as a msgspec struct.

        Raises DecodeError, which names the field and never its value. It is a Reject: if the handler does not catch it,
        the item is dead at once, because no other worker could read it either. Raises TypeError for a type that no
        payload of this kind can be read as.
        """
        return decoding.decode(self._there(), wanted)

    def _header(self) -> str | None:
        """Return the header that has the content type, for payloads that do not define it."""
        return None

    def _there(self) -> Element:
        payload = self.payload
        if payload is None:
            raise decoding.DecodeError("The item has no payload.")
        return payload
