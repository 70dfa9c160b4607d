"""The cache of libraries: what they are named by, whose they are, and what becomes of damage and of many at once."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft._build import cache, library, toolchain

from .. import fresh
from ..default import by_default

BODY = "void f(int64_t n, const T *x, T *out) {{ while (n--) out[n] = {value} * x[n]; }}"


def declare(source):
    @tg.op(kernel=source if not isinstance(source, str) else tg.c(source))
    def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    return f


def libraries(folder):
    return sorted(path.name for path in folder.glob("*.so"))


@pytest.fixture
def builds(monkeypatch):
    """The names of what is compiled."""
    made = []
    build = toolchain.Compiler.build

    def counted(self, source, level, file, path, prototype):
        made.append(path.name)
        return build(self, source, level, file, path, prototype)

    monkeypatch.setattr(toolchain.Compiler, "build", counted)
    return made


@pytest.fixture
def forget(monkeypatch):
    """Another process would have loaded nothing yet."""
    monkeypatch.setattr(library, "_loaded", {})


@pytest.mark.slow
def test_a_library_for_each_dtype_is_built_once(own_cache, builds):
    f = declare(BODY.format(value=2))
    for _ in range(2):
        assert f(torch.ones(2)).tolist() == f(torch.ones(2).double()).tolist() == [2, 2]
        assert f(torch.ones(2).half()).tolist() == [2, 2]  # by that of float32
    assert len(builds) == 2 == len(libraries(own_cache))
    assert declare(BODY.format(value=2))(torch.ones(1)).item() == 2
    assert len(builds) == 2


@pytest.mark.slow
def test_everything_that_matters_is_in_the_name(own_cache, builds, tmp_path, monkeypatch):
    (tmp_path / "f.c").write_text(BODY.format(value=3))
    sources = [BODY.format(value=2), tg.c(BODY.format(value=2), flags=["-O1"]), tg.c(tmp_path / "f.c")]
    assert [declare(source)(torch.ones(1)).item() for source in sources] == [2, 2, 3]
    assert len(builds) == 3
    (tmp_path / "f.c").write_text(BODY.format(value=4))
    assert declare(tg.c(tmp_path / "f.c"))(torch.ones(1)).item() == 4
    monkeypatch.setattr(library, "processor_level", lambda: None)
    declare(sources[0])(torch.ones(1))
    assert len(builds) == 5


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["plain", "with spaces, #hash $dollar and ünïcode"])
def test_included_files_are_looked_at(own_cache, builds, tmp_path, folder):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "value.h").write_text("#define VALUE 5\n")
    source = tg.c('#include "value.h"\n' + BODY.format(value="VALUE"), include=[tmp_path / folder])
    assert declare(source)(torch.ones(1)).item() == 5
    (tmp_path / folder / "value.h").write_text("#define VALUE 6\n")
    assert declare(source)(torch.ones(1)).item() == 6
    assert declare(source)(torch.ones(1)).item() == 6
    assert len(builds) == 2


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"\x7fELF", None], ids=["truncated", "replaced", "deleted"])
def test_damage_is_noticed(own_cache, builds, forget, damage):
    source = BODY.format(value=7)
    assert declare(source)(torch.ones(1)).item() == 7
    (path,) = own_cache.glob("*.so")
    library._loaded.clear()
    path.unlink()  # what is loaded keeps its memory
    if damage is not None:
        path.write_bytes(damage)
    assert declare(source)(torch.ones(1)).item() == 7
    assert len(builds) == 2


def test_the_cache_is_its_owner_s_alone(own_cache):
    declare(BODY.format(value=8))(torch.ones(1))
    assert own_cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["open", "shared", "file"])
def test_what_cannot_be_trusted_is_not_used(own_cache, what):
    if what != "file":
        own_cache.mkdir()
        own_cache.chmod(0o777 if what == "open" else 0o770)
    else:
        own_cache.write_text("a file is in the way")
    with pytest.warns(tg.TorchgraftWarning, match="kernels are not cached in .*; this process uses"):
        assert declare(BODY.format(value=9 + len(what)))(torch.ones(1)).item() == 9 + len(what)
    assert own_cache.is_file() or not list(own_cache.iterdir())
    assert cache.folder().stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_cache_that_cannot_be_made(monkeypatch):
    monkeypatch.setenv("TORCHGRAFT_CACHE", "/proc/torchgraft")
    with pytest.warns(tg.TorchgraftWarning, match="not cached in /proc/torchgraft"):
        assert declare(BODY.format(value=31))(torch.ones(1)).item() == 31
    assert declare(BODY.format(value=32))(torch.ones(1)).item() == 32  # said once


def test_a_full_disk(own_cache, tmp_path, monkeypatch):
    compiler = tmp_path / "cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *{own_cache}*) echo "ld: No space left on device" >&2; exit 1;; esac\nexec cc "$@"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.warns(tg.TorchgraftWarning, match="No space left on device"):
        assert declare(BODY.format(value=33))(torch.ones(1)).item() == 33
    assert libraries(own_cache) == []
    assert declare(BODY.format(value=34))(torch.ones(1)).item() == 34


@pytest.mark.slow
def test_threads_that_ask_at_once(own_cache, builds):
    functions = [declare(BODY.format(value=35)) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert [t.item() for t in pool.map(lambda f: f(torch.ones(1)), functions)] == [35] * 8
    assert len(builds) == 1


@pytest.mark.slow
def test_a_cache_that_is_deleted_while_it_is_used(own_cache):
    f = declare(BODY.format(value=13))
    assert f(torch.ones(1)).item() == 13
    for path in own_cache.iterdir():
        path.unlink()
    own_cache.rmdir()
    assert f(torch.ones(1)).item() == 13
    assert f(torch.ones(1).double()).item() == 13


PROGRAM = """
import sys, torch, torchgraft as tg
from jaxtyping import Float
from torch import Tensor
from torchgraft._build import toolchain

build = toolchain.Compiler.build
def counted(*args):
    print("built", end=" ")
    return build(*args)
toolchain.Compiler.build = counted

@tg.op(kernel=tg.c("void f(int64_t n, const T *x, T *out) { while (n--) out[n] = 17 * x[n]; }"))
def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

print(f(torch.ones(1)).item())
"""


def run(folder, **environment):
    made = fresh.run("-c", PROGRAM, env={**os.environ, "TORCHGRAFT_CACHE": str(folder), **environment}, check=True)
    return made.stdout.strip()


@pytest.mark.parametrize("count", by_default([2, 6], lambda count: count == 2))
def test_many_processes_compile_once(tmp_path, count):
    with ThreadPoolExecutor(count) as pool:
        printed = list(pool.map(run, [tmp_path / "cache"] * count))
    assert sorted(printed) == ["17.0"] * (count - 1) + ["built 17.0"]


@pytest.mark.slow
def test_an_interrupted_build_leaves_nothing_that_is_taken_for_a_library(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *--version*) echo stub; exit 0;; esac\nkill -9 $PPID\n')
    compiler.chmod(0o755)
    folder = tmp_path / "cache"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(folder, CC=str(compiler))
    assert caught.value.returncode == -9
    assert libraries(folder) == []
    assert run(folder) == "built 17.0"
    assert run(folder) == "17.0"


@pytest.mark.slow
def test_two_versions_in_one_process(own_cache):
    old, new = declare(BODY.format(value=21)), declare(BODY.format(value=22))
    x = torch.ones(1)
    assert (old(x).item(), new(x).item(), old(x).item()) == (21, 22, 21)


@pytest.mark.slow
def test_compiled_code_follows_a_redefinition(own_cache):
    f = declare(BODY.format(value=23))

    @torch.compile(fullgraph=True, backend="aot_eager")
    def call(x):
        return f(x) + 1

    assert call(torch.ones(1)).item() == 24
    f = declare(BODY.format(value=24))
    assert call(torch.ones(1)).item() == 25


@pytest.mark.slow
def test_the_shim_is_compiled_once(empty_cache):
    for value in (51, 52):
        assert declare(BODY.format(value=value))(torch.ones(1)).item() == value
    assert len(list(empty_cache.glob("*.o"))) == 1


def test_a_program_is_asked_for_its_version_once_and_a_script_each_time(own_cache, tmp_path, monkeypatch):
    script, asked, run = tmp_path / "cc", [], subprocess.run
    script.write_text('#!/bin/sh\nexec cc "$@"\n')
    script.chmod(0o755)

    def counted(command, **options):
        asked.append(command[0])
        return run(command, **options)

    monkeypatch.setattr(toolchain.subprocess, "run", counted)
    for name in ("cc", "cc", str(script), str(script)):
        assert toolchain._find.__wrapped__("c", name, os.environ["PATH"]).version
    assert asked == ["cc", str(script), str(script)]


def test_nothing_is_not_remembered(own_cache):
    assert [cache.known("nothing", partial(str, text)) for text in ("", "told", "again")] == ["", "told", "told"]
