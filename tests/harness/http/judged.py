"""Has schemathesis check a service by its OpenAPI document: requests are made from it, and every answer has to be documented."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from schemathesis import Case

NOT_ASKED: Final = [
    schemathesis.checks.not_a_server_error,  # here: some statuses of servers are answers
    ignored_auth,  # its wrong passwords would delay the right ones too
    positive_data_acceptance,  # a text that a schema allows may be an invalid cron line, place or name
]

UNABLE: Final = frozenset({501, 503, 507})
"""Server errors that are documented answers; every other status from 500 on is a fault."""


def check_document(document: Mapping[str, Any]) -> None:
    """Check that a document is valid OpenAPI 3.1."""
    assert str(document["openapi"]).startswith("3.1.")
    OpenAPIV31SpecValidator(document).validate()


def judge(
    document: Mapping[str, Any],
    place: str,
    headers: Mapping[str, str],
    *,
    number: int,
    examples: int,
    only: Callable[[str, str], bool] = lambda _method, _path: True,
    excluded: Iterable[Any] = (),
) -> Counter[int]:
    """Send this many requests for each operation of the document; return how often each status came. `number` is the seed.

    Raises:
        AssertionError or a group of failures: an answer is a fault, or not documented.

    """
    schema = schemathesis.openapi.from_dict(dict(document))
    statuses: Counter[int] = Counter()
    for result in schema.get_all_operations():
        operation = result.ok()
        if not only(operation.method.upper(), operation.path):
            continue

        @seed(number)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy())
        def one(case: Case) -> None:
            answer = case.call(base_url=place, headers=dict(headers))
            statuses[answer.status_code] += 1
            assert answer.status_code < 500 or answer.status_code in UNABLE, answer.text
            case.validate_response(answer, excluded_checks=[*NOT_ASKED, *excluded])

        one()
    return statuses
