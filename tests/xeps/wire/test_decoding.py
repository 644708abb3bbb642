"""Payloads as msgspec structs; what does not fit is named, and its value is not."""

import enum
import traceback
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID
from xml.etree.ElementTree import fromstring

import msgspec
import pytest

from pubqueue_xeps.wire.payloads.decoding import DecodeError, decode
from pubqueue_xeps.wire.refusals import Outcome, outcome_of


class Colour(enum.Enum):
    LATE = "late"


class Passenger(msgspec.Struct, frozen=True):
    name: str
    bags: int = 0


class Flight(msgspec.Struct):
    number: str
    minutes: int
    kind: Colour = Colour.LATE
    passengers: list[Passenger] = []
    stops: set[str] = set()
    left: datetime | None = None
    first: Passenger | None = None


class Job(msgspec.Struct):
    text: str
    priority: int = 0


class Tree(msgspec.Struct):
    name: str
    branch: list["Tree"] = []


class Scalars(msgspec.Struct, rename="kebab"):
    is_late: bool
    price: Decimal
    share: float
    id: UUID
    either: int | str
    raw: bytes
    word: Literal["a", "b"] | None = None


FLIGHT = """<f:flight xmlns:f='urn:flights' xmlns='urn:other' number='LH 400' x='y'>
    <minutes> 125
    </minutes>
    <passengers bags='2'><name>Ann &amp; Bo</name></passengers><ignored/>
    <f:passengers name=''/>
    <stops>FRA</stops>
    <left>2026-01-01T00:00:00Z</left>
</f:flight>"""


def test_attributes_and_children_are_fields_and_repeated_ones_are_lists():
    assert decode(fromstring(FLIGHT), Flight) == Flight(
        "LH 400",
        125,
        passengers=[Passenger("Ann & Bo", 2), Passenger("")],
        stops={"FRA"},
        left=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_the_elements_own_text_is_the_field_text():
    assert decode(fromstring("<job priority='3'> rebook </job>"), Job) == Job(" rebook ", 3)
    assert decode(fromstring("<job><text>a</text></job>"), Job) == Job("a")
    assert decode(fromstring("<job text='a'>b</job>"), Job) == Job("a")


def test_a_struct_may_hold_itself():
    tree = fromstring("<t name='a'><branch name='b'><branch name='c'/></branch></t>")
    assert decode(tree, Tree) == Tree("a", [Tree("b", [Tree("c")])])


def test_scalars_and_renamed_fields():
    xml = """<s is-late='true' price='1.10' share='0.5' either='x' raw='aGk='
        id='12345678-1234-5678-1234-567812345678'><word/></s>"""
    assert decode(fromstring(xml), Scalars) == Scalars(
        is_late=True,
        price=Decimal("1.10"),
        share=0.5,
        id=UUID("12345678-1234-5678-1234-567812345678"),
        either="x",
        raw=b"hi",
    )


def test_a_list_without_elements_is_empty():
    class Bag(msgspec.Struct):
        things: list[int]

    assert decode(fromstring("<bag/>"), Bag) == Bag([])
    assert decode(fromstring("<bag things='7'/>"), Bag) == Bag([7])


@pytest.mark.parametrize(
    ("xml", "sentence"),
    [
        ("<f number='SECRET'/>", "The payload has no field 'minutes'."),
        (
            "<f number='1' minutes='SECRET'/>",
            "The field 'minutes' of the payload cannot be read: it is no `int`.",
        ),
        (
            "<f number='1' minutes='1' kind='SECRET'/>",
            "The field 'kind' of the payload cannot be read.",
        ),
        (
            "<f number='1' minutes='1'><passengers name=''/><passengers>SECRET</passengers></f>",
            "The payload has no field 'passengers[1].name'.",
        ),
        (
            "<f number='1'><minutes>1</minutes><minutes>SECRET</minutes></f>",
            "The field 'minutes' of the payload cannot be read: it is no `int`.",
        ),
        (
            "<f minutes='1'><number><b>SECRET</b></number></f>",
            "The field 'number' of the payload cannot be read: it is no `str`.",
        ),
        (
            "<f number='1' minutes='1' left='SECRET'/>",
            "The field 'left' of the payload cannot be read.",
        ),
    ],
)
def test_what_does_not_fit_is_named_without_its_value(xml, sentence):
    with pytest.raises(DecodeError) as caught:
        decode(fromstring(xml), Flight)
    assert str(caught.value) == sentence
    assert "SECRET" not in "".join(traceback.format_exception(caught.value)).replace(xml, "")
    assert outcome_of(caught.value) == Outcome("reject", reason=sentence)


def test_what_a_struct_itself_refuses_is_not_repeated():
    class Picky(msgspec.Struct):
        word: str
        count: Annotated[int, msgspec.Meta(ge=3)] = 3

        def __post_init__(self):
            raise ValueError(f"not {self.word}")

    with pytest.raises(DecodeError, match=r"^The payload cannot be read as a Picky\.$"):
        decode(fromstring("<p word='SECRET'/>"), Picky)
    with pytest.raises(DecodeError, match=r"'count' of the payload .* it is no `int` >= 3\.$"):
        decode(fromstring("<p word='' count='1'/>"), Picky)


@pytest.mark.parametrize(
    "kind", [dict[str, int], Any, list[list[int]], Passenger | list[int], int | list[int]]
)
def test_a_struct_that_no_payload_could_fit_is_the_authors_mistake(kind):
    impossible = msgspec.defstruct("Impossible", [("field", kind)])
    with pytest.raises(
        TypeError, match=r"Impossible\.field has a type that cannot be read from XML"
    ):
        decode(fromstring("<x/>"), impossible)
    with pytest.raises(TypeError, match="int is not a msgspec struct"):
        decode(fromstring("<x/>"), int)
