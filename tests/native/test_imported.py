"""C functions that Python modules lend to kernels."""

import pytest
import scipy.special
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

PLACE = "scipy.special.cython_special:__pyx_fuse_1kv"
SOURCE = """
TG_IMPORT(double, lent, (double, double, int))
T kv(T v, T x) { return (T)lent(v, x, 0); }
"""


def make(source=SOURCE, imports=None, language=tg.c):
    @tg.op(kernel=language(source, imports={"lent": PLACE} if imports is None else imports))
    def kv(v: Float[Tensor, "..."], x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    return kv


X = torch.linspace(0.1, 20, 5000, dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize("language", [tg.c, tg.cpp])
def test_the_lent_function_is_called(language):
    kv = make(language=language)
    expected = torch.from_numpy(scipy.special.kv(0.3, X.numpy()))
    assert torch.equal(kv(0.3, X), expected)
    torch.testing.assert_close(kv(0.3, X.float()), expected.float())
    torch.testing.assert_close(torch.compile(lambda x: kv(0.3, x), fullgraph=True, backend="aot_eager")(X), expected)


@pytest.mark.slow
def test_two_kernels_have_pointers_of_their_own():
    other = make(SOURCE.replace("kv(", "kv(").replace("lent(v", "1 + lent(v"))
    assert torch.equal(other(0.3, X), 1 + make()(0.3, X))


def test_one_source_may_call_several_functions():
    scaled = make(imports={"lent": "scipy.special.cython_special:__pyx_fuse_1kve"})
    assert torch.equal(make()(0.3, X), torch.from_numpy(scipy.special.kv(0.3, X.numpy())))
    assert torch.equal(scaled(0.3, X), torch.from_numpy(scipy.special.kve(0.3, X.numpy())))


@pytest.mark.parametrize("places", ["double *, double *", "double* sine, double*cosine"])
def test_results_may_come_through_pointers(places):
    source = f"""
    TG_IMPORT(void, lent, (double, {places}))
    void sici(T x, T *out0, T *out1) {{ double s, c; lent(x, &s, &c); *out0 = (T)s; *out1 = (T)c; }}
    """

    @tg.op(kernel=tg.c(source, imports={"lent": "scipy.special.cython_special:__pyx_fuse_1sici"}))
    def sici(x: Float[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]: ...

    for found, expected in zip(sici(X), scipy.special.sici(X.numpy()), strict=True):
        assert torch.equal(found, torch.from_numpy(expected))


def test_what_is_lent_needs_no_sanitizer():
    with tg.debug():
        assert torch.equal(make()(0.3, X), torch.from_numpy(scipy.special.kv(0.3, X.numpy())))


def test_another_type_is_refused():
    """It would be called with garbage."""
    with pytest.raises(tg.TorchgraftError, match="of another type") as caught:
        make(SOURCE.replace("(double, double, int)", "(double, int, int)"))(0.3, X)
    assert caught.value.expected == "double (double, double, int)"
    assert caught.value.got == "double (double, int, int)"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("scipy.special.cython_special:kvv", "KeyError"),
        ("no_such_module:kv", "ModuleNotFoundError"),
        ("math:sin", "AttributeError"),
    ],
)
def test_what_is_not_there(place, words):
    with pytest.raises(tg.TorchgraftError, match="cannot import the C function") as caught:
        make(imports={"lent": place})(0.3, X)
    assert words in caught.value.got


@pytest.mark.parametrize(
    ("source", "imports", "hint"),
    [(SOURCE, {}, "imports={'lent'"), ("T kv(T v, T x) { return v; }", {"lent": PLACE}, "TG_IMPORT(double, lent")],
    ids=["in Python", "in C"],
)
def test_what_is_said_in_one_place_alone(source, imports, hint):
    with pytest.raises(tg.DeclarationError, match="alone") as caught:
        make(source, imports)(0.3, X)
    assert hint in caught.value.hint


def test_a_program_without_python_has_none_to_lend(tmp_path):
    with pytest.raises(tg.UnsupportedError, match="Python lends the function"):
        make().save_library(tmp_path / "kv.so", dtypes=[torch.float64])
