"""The machines are played by others as well, whose failures are to be told like those of tests."""

import pytest

pytest.register_assert_rewrite("app")
