"""Marks of tests."""

import pytest
from places import THOROUGH

# Tests of several seconds, which only .ci/run runs.
thorough = pytest.mark.skipif(not THOROUGH, reason="run in CI's thorough mode")
