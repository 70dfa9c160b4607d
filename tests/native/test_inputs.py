"""What a library was built from: whatever the compiler would read otherwise, it is built again."""

import os
import subprocess
import time

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft._build import cache, inputs, library, toolchain

BODY = "void f(int64_t n, const T *x, T *out) { while (n--) out[n] = VALUE; }"


@pytest.fixture(autouse=True)
def fresh(own_cache, monkeypatch):
    """An empty cache, in a process that has loaded nothing."""
    monkeypatch.setattr(library, "_loaded", {})


@pytest.fixture
def builds(monkeypatch):
    made = []
    build = toolchain.Compiler.build
    monkeypatch.setattr(toolchain.Compiler, "build", lambda self, *args: made.append(args) or build(self, *args))
    return made


def declare(source):
    @tg.op(kernel=source)
    def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    return f


def value(source):
    return declare(source)(torch.ones(1)).item()


def define(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#define VALUE {number}\n")


# -- headers -------------------------------------------------------------------------------------------------------

FOUND = {
    "in an earlier folder": ('#include "value.h"', "first/value.h"),
    "in angles": ("#include <value.h>", "first/value.h"),
    "below a folder that is new": ('#include "deep/value.h"', "first/deep/value.h"),
    "by __has_include": (
        '#if __has_include("extra.h")\n#include "extra.h"\n#else\n#include "value.h"\n#endif',
        "last/extra.h",
    ),
    "by a macro's text": (
        '#define EXTRA "extra.h"\n#if __has_include(EXTRA)\n#include EXTRA\n#else\n#include "value.h"\n#endif',
        "first/extra.h",
    ),
    "asked for by another header": ('#include "chooses.h"', "last/chosen.h"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("code", "appears"), FOUND.values(), ids=FOUND)
def test_a_header_that_appears(tmp_path, builds, code, appears):
    for folder in ("last", "last/deep"):
        define(tmp_path / folder / "value.h", 1)
    (tmp_path / "last/chooses.h").write_text(
        '#if __has_include("chosen.h")\n#include "chosen.h"\n#else\n#include "value.h"\n#endif'
    )
    source = tg.c(f"{code}\n{BODY}", include=[tmp_path / "first", tmp_path / "last"])
    assert [value(source), value(source), len(builds)] == [1, 1, 1]
    define(tmp_path / appears, 2)
    assert [value(source), value(source), len(builds)] == [2, 2, 2]
    (tmp_path / appears).unlink()
    assert [value(source), len(builds)] == [1, 3]


@pytest.mark.slow
def test_a_header_of_the_system_s_folders(tmp_path, builds):
    define(tmp_path / "value.h", 3)
    source = tg.c(f"#include <value.h>\n{BODY}", flags=["-isystem", str(tmp_path)])
    assert [value(source), value(source), len(builds)] == [3, 3, 1]
    define(tmp_path / "value.h", 4)
    assert [value(source), len(builds)] == [4, 2]


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["CPATH", "C_INCLUDE_PATH"])
def test_folders_from_the_environment(tmp_path, builds, monkeypatch, variable):
    for number in (5, 6):
        define(tmp_path / str(number) / "value.h", number)
    source = tg.c(f"#include <value.h>\n{BODY}")
    for number in (5, 6, 5):
        monkeypatch.setenv(variable, str(tmp_path / str(number)))
        assert value(source) == number
    define(tmp_path / "5/value.h", 7)
    assert value(source) == 7


def test_every_variable_is_in_the_name(monkeypatch):
    tools, keys = toolchain.compiler("c", "f"), set()
    for variable in inputs.ENVIRONMENT:
        monkeypatch.setenv(variable, "12")
        keys.add(tools.key(tg.c(BODY), "text", []))
        monkeypatch.delenv(variable)
    assert len(keys) == len(inputs.ENVIRONMENT)


@pytest.mark.slow
def test_the_file_of_an_option(tmp_path, builds):
    (tmp_path / "options").write_text("-DVALUE=9")
    source = tg.c(BODY, flags=[f"@{tmp_path / 'options'}"])
    assert value(source) == 9
    (tmp_path / "options").write_text("-DVALUE=8")
    assert value(source) == 8


@pytest.mark.slow
def test_a_compiler_that_is_a_script(tmp_path, builds, monkeypatch):
    source = tg.c(BODY)
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    for number in (1, 23):
        (tmp_path / "cc").write_text(f'#!/bin/sh\nexec cc -DVALUE={number} "$@"\n')
        (tmp_path / "cc").chmod(0o755)
        toolchain._find.cache_clear()  # as in another process
        assert value(source) == number
    toolchain._find.cache_clear()


# -- libraries -----------------------------------------------------------------------------------------------------

CALLS = "int number(void);\nvoid f(int64_t n, const T *x, T *out) { while (n--) out[n] = number(); }"


def archive(folder, number):
    folder.mkdir(exist_ok=True)
    (folder / "number.c").write_text(f"int number(void) {{ return {number}; }}")
    subprocess.run(["cc", "-fPIC", "-c", "number.c"], cwd=folder, check=True)
    (folder / "libnumber.a").unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", "libnumber.a", "number.o"], cwd=folder, check=True)


LINKED = {
    "by name": lambda folder: {"libraries": ["number"], "flags": [f"-L{folder}"]},
    "by its file's name": lambda folder: {"libraries": [":libnumber.a"], "flags": [f"-L{folder}"]},
}


@pytest.mark.slow
@pytest.mark.parametrize("linked", LINKED.values(), ids=LINKED)
def test_a_static_library(tmp_path, builds, linked):
    archive(tmp_path / "last", 1)
    options = linked(tmp_path / "last")
    options["flags"] = [f"-L{tmp_path / 'first'}", *options["flags"]]
    source = tg.c(CALLS, **options)
    assert [value(source), value(source), len(builds)] == [1, 1, 1]
    archive(tmp_path / "last", 2)
    assert [value(source), len(builds)] == [2, 2]
    archive(tmp_path / "first", 3)  # an earlier folder
    assert [value(source), len(builds)] == [3, 3]


@pytest.mark.slow
def test_an_object_file(tmp_path, builds):
    archive(tmp_path, 4)
    source = tg.c(CALLS, flags=[str(tmp_path / "number.o")])
    assert value(source) == 4
    archive(tmp_path, 5)
    assert [value(source), len(builds)] == [5, 2]


@pytest.mark.slow
def test_a_library_by_the_environment(tmp_path, monkeypatch):
    archive(tmp_path, 6)
    monkeypatch.setenv("LIBRARY_PATH", str(tmp_path))
    source = tg.c(CALLS, libraries=["number"])
    assert value(source) == 6
    archive(tmp_path, 7)
    assert value(source) == 7


# -- while it is built ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_header_that_changes_while_it_is_read(tmp_path, builds, monkeypatch):
    """Its new text would be taken for what was compiled."""
    define(tmp_path / "value.h", 1)
    time.sleep(0.02)
    source, run = tg.c(f'#include "value.h"\n{BODY}', include=[tmp_path]), toolchain._compiled

    def meanwhile(command, made):
        result = run(command, made)
        if len(builds) == 1 and made.suffix == ".so":
            time.sleep(0.02)
            define(tmp_path / "value.h", 2)
        return result

    monkeypatch.setattr(toolchain, "_compiled", meanwhile)
    assert value(source) == 2
    assert len(builds) == 2
    assert [value(source), len(builds)] == [2, 2]


@pytest.mark.slow
def test_ages_stand_for_old_files_alone(tmp_path, builds):
    define(tmp_path / "value.h", 1)
    source = tg.c(f'#include "value.h"\n{BODY}', include=[tmp_path])
    assert value(source) == 1
    status = os.stat(tmp_path / "value.h")
    define(tmp_path / "value.h", 2)
    os.utime(tmp_path / "value.h", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert value(source) == 2


@pytest.mark.slow
def test_a_record_that_makes_no_sense(own_cache, builds):
    source = tg.c("void f(int64_t n, const T *x, T *out) { *out = 11; }")
    for number, text in enumerate(["", "{}", "[]", "null", '{"made": 1}', '{"made": ["a", "b"], "files": 3}', "\0"]):
        assert value(source) == 11
        assert len(builds) == number + 1
        for record in own_cache.glob("*.built"):
            record.write_text(text)


# -- one text in a process -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_source_is_read_where_it_is_named(tmp_path):
    (tmp_path / "f.c").write_text(BODY.replace("VALUE", "1"))
    f = declare(tg.c(tmp_path / "f.c"))
    assert f(torch.ones(1)).item() == 1
    (tmp_path / "f.c").write_text(BODY.replace("VALUE", "2"))
    assert f(torch.ones(1).double()).item() == 1
    assert value(tg.c(tmp_path / "f.c")) == 2


def test_a_file_s_own_headers_are_found_beside_it(tmp_path):
    define(tmp_path / "value.h", 3)
    (tmp_path / "f.c").write_text(f'#include "value.h"\n{BODY}')
    assert value(tg.c(tmp_path / "f.c")) == 3


@pytest.mark.parametrize(
    "text", ["\ufeff{}", "{}\r\n", "{} // caf\udce9", "{} \\"], ids=["mark", "dos", "latin", "end"]
)
def test_every_text_is_compiled_as_it_is(tmp_path, text):
    code = text.replace("{}", BODY.replace("VALUE", "4"))
    (tmp_path / "f.c").write_bytes(code.encode("utf-8", "surrogateescape"))
    assert value(tg.c(tmp_path / "f.c")) == 4


@pytest.mark.slow
def test_a_header_that_is_edited_between_two_dtypes(tmp_path):
    define(tmp_path / "value.h", 5)
    f = declare(tg.c(f'#include "value.h"\n{BODY}', include=[tmp_path]))
    assert f(torch.ones(1)).item() == 5
    define(tmp_path / "value.h", 6)
    with pytest.warns(tg.TorchgraftWarning, match=r"f: \S*value.h was changed .* two texts"):
        assert f(torch.ones(1).double()).item() == 6
    assert declare(tg.c(f'#include "value.h"\n{BODY}', include=[tmp_path]))(torch.ones(1)).item() == 6  # without one


def test_kernel_and_rule_are_one_operator(tmp_path):
    define(tmp_path / "value.h", 7)
    code = (
        f'#include "value.h"\n{BODY}\nvoid g(int64_t n, const T *grad, T *grad_x) {{ while (n--) grad_x[n] = VALUE; }}'
    )
    f = declare(tg.c(code, include=[tmp_path]))

    @f.vjp("x", kernel=tg.c(code, include=[tmp_path], function="g"))
    def _(grad): ...

    x = torch.ones(1, requires_grad=True)
    out = f(x)
    define(tmp_path / "value.h", 8)
    with pytest.warns(tg.TorchgraftWarning, match="two texts"):
        out.backward()


# -- what is left behind -------------------------------------------------------------------------------------------


def test_folders_of_killed_builds_go(own_cache):
    own_cache.mkdir(mode=0o700)
    (own_cache / "dead.tmp").mkdir()
    (own_cache / "tmpabcd1234").mkdir()  # of an older version
    (own_cache / "tmpabcd1235").mkdir()
    os.utime(own_cache / "tmpabcd1234", (0, 0))
    (own_cache / "live.tmp").mkdir()
    with cache._locked(own_cache / "live.lock"):
        assert value(tg.c(BODY.replace("VALUE", "9"))) == 9
        assert {path.name for path in own_cache.iterdir() if path.is_dir()} == {"live.tmp", "tmpabcd1235"}
        cache.clear()
        assert {path.name for path in own_cache.iterdir()} == {"live.tmp", "live.lock"}
    cache.clear()
    assert list(own_cache.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"junk", b"0" * 32 + b"\n", b"\xff\xfe", b"0\ntext"])
def test_damage_to_what_was_found_out(own_cache, damage):
    assert cache.known("key", lambda: "told") == "told"
    (own_cache / "key.known").write_bytes(damage)
    assert cache.known("key", lambda: "again") == "again"
    assert cache.known("key", lambda: "not asked") == "again"


@pytest.mark.slow
def test_an_empty_text_is_not_no_compiler(own_cache):
    assert value(tg.c(BODY.replace("VALUE", "10"))) == 10
    for path in own_cache.glob("*.known"):
        path.write_bytes(b"")
    toolchain._find.cache_clear()
    assert value(tg.c(BODY.replace("VALUE", "12"))) == 12
