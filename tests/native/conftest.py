"""Libraries that the tests build go into a folder of the run."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def shared_cache(tmp_path_factory):
    """One cache for all workers, and none of the user's."""
    folder = tmp_path_factory.getbasetemp().parent / "kernels"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHGRAFT_CACHE", str(folder))
        yield folder


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("TORCHGRAFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
