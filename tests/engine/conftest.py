"""Other tests run the machines too; their failures are reported like those of tests."""

import pytest

pytest.register_assert_rewrite("app")
