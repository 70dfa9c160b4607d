"""Libraries that the tests build go into a folder of the run."""

import pytest

from torchgraft._build import toolchain


@pytest.fixture(autouse=True, scope="package")
def shared_cache(tmp_path_factory):
    """One cache for all workers, and none of the user's, for the tests of this folder."""
    folder = tmp_path_factory.getbasetemp().parent / "kernels"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHGRAFT_CACHE", str(folder))
        yield folder


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("TORCHGRAFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="package")
def shims(shared_cache):
    """The shims of this machine's compilers, of which one is in every library."""
    level = toolchain.processor_level()
    compilers = {language: toolchain.compiler(language, "") for language in toolchain.SUFFIXES}
    return {(c, language, level): c.shim(language, level) for language, c in compilers.items()}


@pytest.fixture
def own_cache(empty_cache, shims, monkeypatch):
    """An empty cache; only the shim need not be compiled again."""
    plain = toolchain.Compiler.shim
    monkeypatch.setattr(toolchain.Compiler, "shim", lambda *asked: shims.get(asked) or plain(*asked))
    return empty_cache
