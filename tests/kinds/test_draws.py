"""Numbers of a seed: the published vectors, the same in torch, NumPy and C, and the distributions that they claim."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.stats
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

import torchgraft as tg
from torchgraft._draws import numbers, philox

VECTORS = (
    (0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (2**128 - 1, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (0x0370734413198A2E85A308D3243F6A88, 0x299F31D0A4093822, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)
"""Random123's known answers of philox4x32 with 10 rounds: the counter, the key, the four words."""

SOURCE = """
#include <torchgraft/random.h>

void vectors(const int64_t *counter, const int64_t *key, int64_t *words) {
    uint32_t c[4], k[2], out[4];
    for (int i = 0; i < 4; i++) c[i] = (uint32_t)((uint64_t)counter[i / 2] >> 32 * (i % 2));
    for (int i = 0; i < 2; i++) k[i] = (uint32_t)((uint64_t)key[0] >> 32 * i);
    tg_philox4x32(c, k, out);
    for (int i = 0; i < 4; i++) words[i] = out[i];
}

void numbers_of(int64_t n, const double *x, int64_t seed, int64_t *bits, double *uniform, double *single,
                double *normal, int64_t *fold) {
    for (int64_t i = 0; i < n; i++) {
        bits[i] = tg_bits(seed, i), uniform[i] = tg_uniform(seed, i), single[i] = tg_uniformf(seed, i);
        normal[i] = tg_normal(seed, i), fold[i] = tg_fold(seed, i);
    }
}
"""

Row, Whole = Float64[Tensor, "n"], Int64[Tensor, "n"]


class Numbers(NamedTuple):
    bits: Whole
    uniform: Row
    single: Row
    normal: Row
    fold: Whole


@tg.op(kernel=tg.c(SOURCE, function="vectors"))
def vectors(counter: Int64[Tensor, "2"], key: Int64[Tensor, "1"]) -> Int64[Tensor, "4"]: ...


@pytest.fixture(params=["c", "c++"])
def numbers_of(request):
    @tg.op(kernel={"c": tg.c, "c++": tg.cpp}[request.param](SOURCE))
    def numbers_of(x: Row, *, seed: tg.Seed = tg.drawn) -> Numbers: ...

    return numbers_of


def signed(word):
    return word - 2**64 if word >= 2**63 else word


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_the_published_vectors(counter, key, words):
    low, high = counter % 2**64, counter >> 64
    key, number = torch.tensor(signed(key)), torch.tensor(signed(low))
    assert vectors(torch.tensor([signed(low), signed(high)]), key[None]).tolist() == list(words)
    assert [int(word) for word in philox._on_tensors(key, number, high)] == list(words)
    assert philox._on_arrays(key.numpy(), number.numpy(), high).tolist() == list(words)


def test_c_has_the_numbers_of_torch(numbers_of):
    for seed in (0, 1, 2**63 - 1):
        made = numbers_of(torch.zeros(101, dtype=torch.float64), seed=seed)
        assert torch.equal(made.bits, tg.random_bits(seed, 101))
        assert torch.equal(made.uniform, tg.random_uniform(seed, 101, dtype=torch.float64))
        assert torch.equal(made.single, tg.random_uniform(seed, 101, dtype=torch.float32).double())
        assert torch.equal(made.fold, tg.random_fold(torch.tensor(seed), torch.arange(101)))
        torch.testing.assert_close(made.normal, tg.random_normal(seed, 101, dtype=torch.float64), rtol=0, atol=1e-14)


SEEDS = torch.tensor([[0, 1, 2**63 - 1], [-1, -(2**63), 12345]])


@pytest.mark.slow
def test_traced_arithmetic_gives_what_eager_code_gives():
    for numbers_ in (tg.random_bits, tg.random_uniform, tg.random_normal):
        eager = numbers_(SEEDS, (3, 5))
        assert eager.shape == (2, 3, 3, 5)
        mapped = torch.vmap(torch.vmap(lambda seed, of=numbers_: of(seed, (3, 5))))(SEEDS)
        compiled = torch.compile(lambda seed, of=numbers_: of(seed, (3, 5)), backend="aot_eager", fullgraph=True)(SEEDS)
        for made in (mapped, compiled):
            torch.testing.assert_close(made, eager, rtol=0, atol=1e-6 if numbers_ is tg.random_normal else 0)


@pytest.mark.slow
def test_inductor_gives_what_eager_code_gives():
    def all_of(seed):
        folded = tg.random_fold(seed, 3)
        return tg.random_bits(seed, 9), tg.random_uniform(folded, 9, dtype=torch.float64), folded

    for seed in (SEEDS, SEEDS[0, 2], torch.tensor(3)):
        for made, wanted in zip(torch.compile(all_of, fullgraph=True)(seed), all_of(seed), strict=True):
            assert torch.equal(made, wanted)
    # A constant is folded by the compiler, in arithmetic of its own.
    assert torch.equal(
        torch.compile(lambda: tg.random_fold(2**62 + 1, 5), fullgraph=True)(), tg.random_fold(2**62 + 1, 5)
    )


def test_arrays_are_as_tensors():
    seeds = SEEDS.numpy()
    for numbers_ in (tg.random_bits, tg.random_uniform, tg.random_normal):
        made = numbers_(seeds, (3, 5))
        assert isinstance(made, np.ndarray)
        options = {} if numbers_ is tg.random_bits else {"dtype": torch.float64}
        assert np.array_equal(made, numbers_(SEEDS, (3, 5), **options).numpy())
    assert tg.random_uniform(seeds, 2, dtype=np.float32).dtype == np.float32
    assert np.array_equal(tg.random_fold(seeds, np.arange(3)), tg.random_fold(SEEDS, torch.arange(3)).numpy())
    assert tg.random_uniform(np.int64(3)).shape == ()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_narrow_numbers_are_the_first_digits_of_wide_ones(dtype):
    wide, narrow = (tg.random_uniform(5, 4000, dtype=d) for d in (torch.float64, dtype))
    eps = torch.finfo(dtype).eps / 2
    assert narrow.dtype == dtype
    assert narrow.max() < 1
    assert ((wide - narrow.double()) >= 0).all()
    assert ((wide - narrow.double()) < eps).all()


def test_sizes():
    assert tg.random_uniform(3).shape == ()
    assert tg.random_uniform(3, 0).shape == (0,)
    assert tg.random_bits(SEEDS[:0], (2, 0)).shape == (0, 3, 2, 0)
    for count in range(1, 9):  # The first numbers do not depend on how many are drawn.
        for numbers_ in (tg.random_bits, tg.random_uniform, tg.random_normal):
            assert torch.equal(numbers_(7, count), numbers_(7, 9)[:count])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: tg.random_uniform(1.5), tg.ArgumentError, "float"),
        (lambda: tg.random_uniform(True), tg.ArgumentError, "bool"),
        (lambda: tg.random_bits(torch.tensor(1, dtype=torch.int32)), tg.DtypeError, "int32"),
        (lambda: tg.random_bits(np.zeros(2)), tg.DtypeError, "float64"),
        (lambda: tg.random_normal(1, 2, dtype=torch.int64), tg.DtypeError, "real"),
        (lambda: tg.random_uniform(1, 2, dtype=torch.complex64), tg.DtypeError, "floating"),
        (lambda: tg.random_uniform(1, (2, -1)), tg.ArgumentError, "negative size"),
    ],
)
def test_wrong_use(call, error, said):
    with pytest.raises(error, match=said):
        call()


# -- distributions ----------------------------------------------------------------------------------------------------

ONE_SEED = torch.tensor(2024)
MANY_SEEDS = tg.random_fold(ONE_SEED, torch.arange(40_000))
STREAMS = {
    "along one seed": lambda numbers_, **options: numbers_(ONE_SEED, 40_000, **options),
    "the first number of each sample": lambda numbers_, **options: numbers_(MANY_SEEDS, **options),
    "small seeds": lambda numbers_, **options: numbers_(torch.arange(40_000), **options),
}
LEAST = 1e-4
"""A p-value below it is no accident: the seeds are fixed."""


@pytest.mark.parametrize("stream", STREAMS)
def test_bytes_are_uniform_and_independent(stream):
    bits = STREAMS[stream](tg.random_bits).numpy()
    assert bits.min() >= 0
    assert bits.max() < 2**32
    bytes_ = bits.astype(np.uint32).view(np.uint8)
    assert scipy.stats.chisquare(np.bincount(bytes_, minlength=256)).pvalue > LEAST
    table = np.zeros((16, 16))
    np.add.at(table, (bits[:-1] >> 28, bits[1:] >> 28), 1)
    assert scipy.stats.chi2_contingency(table).pvalue > LEAST


@pytest.mark.parametrize("stream", STREAMS)
def test_uniform_numbers(stream):
    drawn = STREAMS[stream](tg.random_uniform, dtype=torch.float64).numpy()
    assert scipy.stats.kstest(drawn, "uniform").pvalue > LEAST
    assert abs(drawn.mean() - 0.5) < 5 * (1 / 12 / len(drawn)) ** 0.5
    assert abs(drawn.var() - 1 / 12) < 0.002


@pytest.mark.parametrize("stream", STREAMS)
def test_normal_numbers(stream):
    drawn = STREAMS[stream](tg.random_normal, dtype=torch.float64).numpy()
    assert scipy.stats.kstest(drawn, "norm").pvalue > LEAST
    assert scipy.stats.normaltest(drawn).pvalue > LEAST
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / len(drawn) ** 0.5
    assert abs(np.corrcoef(drawn[:-1] ** 2, drawn[1:] ** 2)[0, 1]) < 5 / len(drawn) ** 0.5


def test_kinds_of_numbers_do_not_hang_together():
    uniform, normal = tg.random_uniform(3, 20_000), tg.random_normal(3, 20_000)
    assert abs(np.corrcoef(uniform, normal)[0, 1]) < 0.04
    assert abs(np.corrcoef(uniform, normal.abs())[0, 1]) < 0.04
    bits = tg.random_bits(3, 20_000)
    assert abs(np.corrcoef(uniform, bits)[0, 1]) < 0.04


def test_folding():
    seeds = MANY_SEEDS.numpy()
    assert len(np.unique(seeds)) == len(seeds)
    assert seeds.min() >= 0  # NumPy's generators take no other.
    assert not np.intersect1d(seeds, tg.random_fold(ONE_SEED + 1, torch.arange(40_000)).numpy()).size
    flipped = seeds[:4000] ^ tg.random_fold(ONE_SEED ^ 1, torch.arange(4000)).numpy()
    bits = (flipped[:, None] >> np.arange(63) & 1).mean()
    assert abs(bits - 0.5) < 0.01  # Each bit of a seed turns over half of the result.
    assert numbers.sample_seeds(ONE_SEED, (2, 3)).tolist() == seeds[:6].reshape(2, 3).tolist()
