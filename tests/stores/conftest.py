"""What tests of stores share: the contract, whose failures are to be told like those of tests."""

import pytest

pytest.register_assert_rewrite("stores")
