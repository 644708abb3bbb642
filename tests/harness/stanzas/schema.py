"""Every stanza of the service, and of our workers, is valid by the schemas in `xeps/schemas`, strictly.

The echo in an error is the requester's own, good or bad, and is not checked; unless the service added a
form to it (XEP-0060 6.1.5), because then the whole is.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lxml import etree

if TYPE_CHECKING:
    from lxml.etree import _Element

ACCEPT: Final = "jabber:component:accept"
SCHEMAS: Final = Path(__file__).parents[3] / "xeps" / "schemas"
ERROR: Final = f"{{{ACCEPT}}}error"
PUBLISH: Final = "{http://jabber.org/protocol/pubsub}pubsub"
"""A request of an IQ, which a message may carry as well."""
OFFERED: Final = ".//{jabber:x:data}x[@type='form']"


def validate(stanza: _Element) -> None:
    """Raise an AssertionError that names the place where the stanza breaks its schema."""
    judged = deepcopy(stanza)
    if judged.get("type") == "error":
        assert judged.find(ERROR) is not None, "not valid: an error without an error of the stream"
        for child in list(judged):
            if child.tag != ERROR and child.find(OFFERED) is None:
                judged.remove(child)
    requests = stanza.tag == f"{{{ACCEPT}}}iq" or stanza.find(PUBLISH) is not None
    schema = _schema("iqs" if requests else "events")
    if not schema.validate(judged):
        faults = "\n".join(fault.message for fault in schema.error_log)
        message = f"not valid:\n{faults}\n{etree.tostring(stanza, encoding='unicode')}"
        raise AssertionError(message)


def validate_own(stanza: _Element) -> None:
    """Validate the sender's own part: a payload can be any element, even one that a schema knows."""
    copy = deepcopy(stanza)
    for item in copy.findall(".//{*}items/{*}item") + copy.findall(".//{*}publish/{*}item"):
        del item[:]
    validate(copy)


@cache
def _schema(name: str) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(SCHEMAS / f"{name}.xsd"))
