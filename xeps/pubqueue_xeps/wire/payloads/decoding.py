"""Decodes a payload to a value.

JSON (XEP-0335) is read as any type that msgspec supports, strictly: a number is not a string. Text from Spark's writer
is read as a string. Text or bytes with a content type (`<data/>`) are read as str or bytes, and as any type if they are
JSON. Other XML is read as a msgspec struct:

    class Flight(msgspec.Struct):
        number: str
        seats: list[int]
        late: bool = False

reads `<flight number="LH 400"><seats>12</seats><seats>14</seats></flight>`. A field is the attribute or child element
of its name, in any namespace; a list is all children of that name; a struct is a child with its own fields. `text` is
the element's own text, unless an attribute or child has that name. Numbers, booleans, times and enumerations are read
in their JSON form. An empty element is None if the type allows None but no string. Elements and attributes that the
struct does not name are ignored.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, Union, get_origin, overload
from xml.etree.ElementTree import tostring

import msgspec
from msgspec import inspect

from pubqueue_xeps.wire.ns import JSON, PUBQUEUE
from pubqueue_xeps.wire.payloads.content_type import HEADER, is_json
from pubqueue_xeps.wire.payloads.wrapper import (
    BOM,
    DATA_TAG,
    WRAPPERS,
    Body,
    carried,
    read_data,
    xml_type,
)
from pubqueue_xeps.wire.refusals import Reject
from pubqueue_xeps.wire.xml_text import xml_text

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element


T = TypeVar("T")

JSON_PAYLOAD: Final = f"{{{JSON}}}json"
TEXT_PAYLOAD: Final = f"{{{PUBQUEUE}}}text"

LISTS: Final = (
    inspect.ListType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.VarTupleType,
)
UNIONS: Final = (Union, UnionType)
TEXTS: Final = (
    inspect.BoolType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.DecimalType,
    inspect.EnumType,
    inspect.FloatType,
    inspect.IntType,
    inspect.LiteralType,
    inspect.StrType,
    inspect.TimeDeltaType,
    inspect.TimeType,
    inspect.UUIDType,
)
OWN_TEXT: Final = "text"
PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`$")
MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
EXPECTED: Final = re.compile(r"Expected `[^`]*`( (>|<|>=|<=) [-+.e\d]+)?")


class DecodeError(Reject):
    """The payload does not match the type; names the field, never its value.

    No other worker could read it either, so a handler that does not catch it rejects the item.
    """


@overload
def decode(payload: Element, wanted: type[T]) -> T: ...


@overload
def decode(payload: Element, wanted: Any) -> Any: ...  # noqa: ANN401 - a union, say, which is no class


def decode(payload: Element, wanted: Any) -> Any:
    """Read a payload as a value of type `wanted`.

    Raises DecodeError for a payload that does not fit, and TypeError for a type with a field that no payload could fit.
    """
    try:
        if payload.tag == JSON_PAYLOAD:
            return _decoder(wanted).decode(_own_text(payload))
        if payload.tag == TEXT_PAYLOAD and wanted is str:
            return _own_text(payload)
        if payload.tag == DATA_TAG:
            return _carried(payload, wanted)
        described = _described(wanted)
        _decoder(wanted)
        return msgspec.convert(_fields(payload, described), wanted, strict=False)
    except msgspec.ValidationError as error:
        # from None: msgspec's text may contain the value
        raise DecodeError(_sentence(str(error), _name(wanted))) from None
    except (msgspec.DecodeError, RecursionError):
        raise DecodeError("The payload is not valid JSON.") from None


def plain(payload: Element) -> Any:  # noqa: ANN401 - any JSON value
    """Return the plain value of a payload that is JSON, text or bytes; raises DecodeError for any other."""
    if payload.tag == DATA_TAG:
        return _content(payload)
    if payload.tag == TEXT_PAYLOAD:
        return _own_text(payload)
    if payload.tag != JSON_PAYLOAD:
        raise DecodeError("The payload is neither JSON nor text nor bytes.")
    return decode(payload, Any)


def _content(payload: Element) -> str | bytes:
    """Return the text or the bytes that `<data/>` carries."""
    content = None if len(payload) else read_data(payload.attrib, payload.text or "")
    if content is None:
        raise DecodeError("The payload is in an encoding that cannot be read.")
    return content


def _carried(payload: Element, wanted: Any) -> Any:  # noqa: ANN401
    """Return what `<data/>` carries: text or bytes as str or bytes, JSON as any type."""
    content = _content(payload)
    body = content.encode() if isinstance(content, str) else content
    if wanted is bytes:
        return body
    if wanted is str:
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise DecodeError("The payload is not text in UTF-8.") from None
    if not is_json(payload.get("type")):
        raise DecodeError(f"The payload is text or bytes and cannot be read as {_name(wanted)}.")
    return _decoder(wanted).decode(body.removeprefix(BOM))


def _own_text(payload: Element) -> str:
    if len(payload):
        raise DecodeError("The payload has elements where its text should be.")
    return payload.text or ""


def _name(wanted: Any) -> str:  # noqa: ANN401 - a type, or what stands for one
    if get_origin(wanted) in UNIONS:  # Python 3.14 names them all alike
        return str(wanted)
    return getattr(wanted, "__name__", None) or str(wanted)


_first = threading.Lock()


@lru_cache(maxsize=256)
def _decoder(wanted: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401 - any type that the caller asks for
    """Return the decoder of a type, which one thread at a time makes.

    Handlers of a blocking worker run in threads. msgspec makes what it knows of a struct at its first use, and another thread that uses the
    same struct meanwhile ends the process with a segmentation fault.
    """
    with _first:
        return msgspec.json.Decoder(wanted)


@lru_cache(maxsize=256)
def _described(wanted: Any) -> inspect.StructType:  # noqa: ANN401 - any type that the caller asks for
    described = inspect.type_info(wanted)
    if not isinstance(described, inspect.StructType):
        raise TypeError(f"{_name(wanted)} is not a msgspec struct.")
    _check(described, set())
    return described


def _check(struct: inspect.StructType, seen: set[type]) -> None:
    if struct.cls in seen:
        return
    seen.add(struct.cls)
    for field in struct.fields:
        kind, _ = _plain(field.type)
        single, _ = _plain(kind.item_type) if isinstance(kind, LISTS) else (kind, False)
        if isinstance(single, inspect.StructType) and not single.array_like:
            _check(single, seen)
        elif not isinstance(single, TEXTS):
            raise TypeError(
                f"{struct.cls.__name__}.{field.name} has a type that cannot be read from XML."
            )


def _plain(kind: inspect.Type) -> tuple[inspect.Type, bool]:
    """Return a type without metadata and without None, and whether None is allowed."""
    if isinstance(kind, inspect.Metadata):
        return _plain(kind.type)
    if not isinstance(kind, inspect.UnionType):
        return kind, False
    others = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    # of several scalars any will do: they are all written as text
    scalar = all(isinstance(each, TEXTS) for each in others)
    text = next((each for each in others if isinstance(each, inspect.StrType)), others[0])
    return (text if scalar or len(others) == 1 else kind), kind.includes_none


def _fields(element: Element, struct: inspect.StructType) -> dict[str, Any]:
    attributes = {_local(name): value for name, value in element.attrib.items()}
    children: dict[str, list[Element]] = {}
    for child in element:
        children.setdefault(_local(child.tag), []).append(child)
    found: dict[str, Any] = {}
    for field in struct.fields:
        name = field.encode_name
        if name in attributes:
            found[name] = _text(attributes[name], field.type)
        elif name in children:
            found[name] = _values(children[name], field.type)
        elif name == OWN_TEXT and not children:
            found[name] = _text(element.text or "", field.type)
        elif isinstance(_plain(field.type)[0], LISTS) and field.required:
            found[name] = []  # none of them
    return found


def _values(elements: list[Element], kind: inspect.Type) -> object:
    plain, _ = _plain(kind)
    if isinstance(plain, LISTS):
        return [_value(element, plain.item_type) for element in elements]
    values = [_value(element, kind) for element in elements]
    return (
        values[0] if len(values) == 1 else values
    )  # several elements are an array, which is refused


def _value(element: Element, kind: inspect.Type) -> object:
    plain, _ = _plain(kind)
    if isinstance(plain, inspect.StructType):
        return _fields(element, plain)
    return {} if len(element) else _text(element.text or "", kind)  # an object, which is refused


def _text(text: str, kind: inspect.Type) -> object:
    plain, optional = _plain(kind)
    if isinstance(plain, LISTS):
        return [_text(text, plain.item_type)]  # an attribute that is a list of one
    if isinstance(plain, inspect.StrType):
        return text
    return None if optional and not text.strip() else text.strip()


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _sentence(message: str, struct: str) -> str:
    """Return what is wrong without the value, which some of msgspec's messages contain."""
    place = PLACE.search(message)
    path = place[1] if place else ""
    if missing := MISSING.match(message):
        field = f"{path}.{missing[1]}" if path else missing[1]
        return f"The payload has no field {field!r}."
    if not path:
        return f"The payload cannot be read as a {struct}."
    expected = EXPECTED.match(message)
    why = f": it is no {expected[0].removeprefix('Expected ')}" if expected else ""
    return f"The field {path!r} of the payload cannot be read{why}."


# A received payload, as XML or as its value.


def type_of(payload: Element, header: str | None = None) -> str | None:
    """Return the content type of an element; `header` is the header `content-type` of its item."""
    found = _in_wrapper(payload, header)
    return xml_type(header) if found is None else found.type


def header_of(headers: Mapping[str, str]) -> str | None:
    """Return the content type among the headers of an item; the names of headers are compared without case."""
    found = [value for name, value in headers.items() if name.lower() == HEADER]
    return found[-1] if found else None


def of_element(payload: Element, header: str | None = None) -> Body:
    """Return what an element carries, as `wrapper.unwrap` does of a stored one; `header` is `content-type`.

    An element that is not a wrapper is XML: its bytes are equivalent to the published ones, not necessarily identical.
    """
    found = _in_wrapper(payload, header)
    return found or Body(xml_text(payload).encode(), xml_type(header), "xml")


def _in_wrapper(payload: Element, header: str | None) -> Body | None:
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
        return plain(self._there())

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
        return decode(self._there(), wanted)

    def _header(self) -> str | None:
        """Return the header that has the content type, for payloads that do not define it."""
        return None

    def _there(self) -> Element:
        payload = self.payload
        if payload is None:
            raise DecodeError("The item has no payload.")
        return payload
