"""What came: a payload as XML, or as the value that it stands for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar, overload
from xml.etree.ElementTree import tostring

from pubqueue_xeps.wire.payloads import decoding
from pubqueue_xeps.wire.payloads.content_type import HEADER
from pubqueue_xeps.wire.payloads.wrapper import WRAPPERS, Body, carried, xml_type

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

    An element that is no wrapper is XML: its bytes mean what was published, and need not be the same ones.
    """
    found = _carried(payload, header)
    return found or Body(tostring(payload, "utf-8"), xml_type(header), "xml")


def _carried(payload: Element, header: str | None) -> Body | None:
    if payload.tag not in WRAPPERS or len(payload):
        return None
    return carried(payload.tag, payload.attrib, payload.text or "", header)


class Content(ABC):
    """Has a payload, and reads it."""

    __slots__ = ()

    @property
    @abstractmethod
    def payload(self) -> Element | None:
        """The payload as an element, or None where there is none."""

    @property
    def bytes(self) -> bytes:
        """The payload as XML in UTF-8; empty where there is none."""
        return b"" if self.payload is None else tostring(self.payload, "utf-8")

    @property
    def type(self) -> str | None:
        """The content type: `application/json` and `application/xml` where the publisher named none.

        None where there is no payload, and for bytes without a type.
        """
        payload = self.payload
        return None if payload is None else type_of(payload, self._header())

    @property
    def data(self) -> Any:  # noqa: ANN401 - whatever JSON can say
        """The plain value of a payload: of JSON a dict, list, str, int, float, bool or None; else text as str, bytes as bytes.

        Of a payload that was published with a content type, that is the text or the bytes of it, but for
        `application/json`. Text in which XML would change something, such as a carriage return, comes as bytes: `decode(str)` and
        `decode(bytes)` have it either way.

        Raises DecodeError for any other payload, and where there is none.
        """
        return decoding.plain(self._there())

    @overload
    def decode(self, wanted: builtins.type[T]) -> T: ...

    @overload
    def decode(self, wanted: Any) -> Any: ...  # noqa: ANN401 - a union, say, which is no class

    def decode(self, wanted: Any) -> Any:
        """Read the payload as a value of type `wanted`; `pubqueue_xeps.wire.payloads.decoding` describes how.

        JSON is read as anything that msgspec knows: structs, dataclasses, `dict[str, int]`,
        `list[Flight]`, str, bytes, datetime, `int | None`. XML is read as a msgspec struct.

        Raises DecodeError, which names the field and never its value. It is a Reject: a handler
        that does not catch it makes the item dead at once, because no other worker could read it
        either. Raises TypeError for a type that no payload of this kind could be read as.
        """
        return decoding.decode(self._there(), wanted)

    def _header(self) -> str | None:
        """Return the header that has the content type where the payload leaves it open."""
        return None

    def _there(self) -> Element:
        payload = self.payload
        if payload is None:
            raise decoding.DecodeError("The item has no payload.")
        return payload
