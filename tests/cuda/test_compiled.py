"""The text of elementwise functions, compiled by NVRTC for devices that are not there."""

import pytest
import torch

import torchgraft as tg
from torchgraft._build.cuda import nvrtc, text
from torchgraft._build.cuda.device import headers
from torchgraft._rules.weighed import weighed

from .operators import EXAMPLES, FLOATS, make

pytestmark = pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed")

ARCHITECTURES = ("75", "80", "90", "120")
OPERATORS = {op.__name__: op for op in (*EXAMPLES, *make().values())}


def functions(op):
    """The C functions of an operator: its kernel, its rules, and those that are made of them."""
    record = op._record
    yield from record.natives()
    for rule in record.rules["partial"].values():
        together = weighed(record.signature, rule)
        if together is not None:
            yield together


def dtypes_of(native, dtype):
    signature = native.prototype.signature
    types = [(p.name, p.tensor.dtypes) for _, p in signature.tensors]
    types += [(output.name, output.type.dtypes) for output in signature.outputs]
    own = {"Bool": torch.bool, "Int": torch.int64}
    return {name: kind.exact or own.get(kind.kind, dtype) for name, kind in types}


def code(native, dtype, architecture, entry="tg_flat32"):
    written = text.emit(native.prototype, dtypes_of(native, dtype), native.source, entry)
    return nvrtc.compiled(written, architecture, headers(), native.label)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", OPERATORS)
def test_it_compiles_for_every_architecture(name, architecture):
    for native in functions(OPERATORS[name]):
        for dtype in FLOATS:
            assert code(native, dtype, architecture).startswith(b"\x7fELF")


@pytest.mark.parametrize("entry", text.ENTRIES)
def test_every_entry_has_its_name(entry):
    native = next(functions(OPERATORS["soft"]))
    image = code(native, torch.float32, "90", entry)
    assert [name.encode() in image for name in text.ENTRIES] == [name == entry for name in text.ENTRIES]


def test_what_nvrtc_refuses_is_told_with_the_users_line():
    source = tg.c("\nT odd(T x) {\n    return nothing(x);\n}\n")
    native = tg.op(kernel=source, name="odd")(_odd)._record.kernels[None].native
    with pytest.raises(tg.BuildError) as caught:
        code(native, torch.float32, "90")
    error = caught.value
    assert error.operator == "odd"
    assert "source of odd(3)" in error.got
    assert "nothing" in error.got


def _odd(x):
    return tg.native


_odd.__annotations__ = OPERATORS["root"].__annotations__


def test_machine_code_is_cached(tmp_path, monkeypatch):
    from torchgraft._build.cuda import device

    monkeypatch.setenv("TORCHGRAFT_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    native = next(functions(OPERATORS["soft"]))
    written = text.emit(native.prototype, dtypes_of(native, torch.float32), native.source, "tg_flat32")
    first = device.machine_code(written, "90", "soft")
    monkeypatch.setattr(nvrtc, "compiled", None)
    assert device.machine_code(written, "90", "soft") == first
    with pytest.raises(TypeError):
        device.machine_code(written, "80", "soft")


def test_without_nvrtc_the_error_names_the_wheel(monkeypatch):
    monkeypatch.setattr(nvrtc, "_library", lambda: None)
    with pytest.raises(tg.BuildError, match="cannot be loaded") as caught:
        nvrtc.compiled("", "90", {}, "soft")
    assert "nvidia-cuda-nvrtc" in caught.value.hint
