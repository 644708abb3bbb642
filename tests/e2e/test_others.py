"""The table of what other services do is true of those that are installed here, and of this one."""

import pytest
from others.table import shown, table

pytestmark = pytest.mark.e2e


async def test_the_table_in_the_readme_is_what_the_services_answer():
    assert await table() == shown(), "in tests: python -m others --write"
