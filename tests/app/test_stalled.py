"""Nobody waits behind work that does not end."""

import asyncio
import threading

import pytest
from harness.requests import *  # noqa
