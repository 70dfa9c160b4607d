"""The ranks of all worlds end with the session."""

from collections.abc import Iterator

import pytest

from .ranks import stop_all


@pytest.fixture(scope="session", autouse=True)
def _ranks() -> Iterator[None]:
    yield
    stop_all()
