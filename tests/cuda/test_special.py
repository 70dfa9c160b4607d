"""The functions of `torchgraft.scipy.special` that run on CUDA, with all that their derivatives call."""

import math
import re
import sys
import zlib
from pathlib import Path

import mpmath
import pytest
import scipy.special
import torch
from jaxtyping import Float64
from torch import Tensor

import torchgraft as tg
from torchgraft._build.cuda import nvrtc
from torchgraft.scipy import special
from torchgraft.scipy.special import (
    bessel,
    distributions,
    elliptic,
    hurwitz,
    incomplete_gamma,
    integrals,
    lambert,
    logarithms,
    normal,
    owens,
)
from torchgraft.scipy.special import spherical as of_integer_order
from torchgraft.scipy.special.airy_functions import airy_nth
from torchgraft.scipy.special.log_gamma import betaln_by_a, betaln_by_a_a, psi_at
from torchgraft.scipy.special.sources import kernel_text, source

from ..default import by_default, first_of_each
from ..scipy.test_ends import FUNCTIONS
from .ends import BESSEL, BY_C, BY_ONE_TEXT, CASES, PUBLIC, SERVED, SPHERICAL, found, inputs_of, misses, on_cuda
from .standin import emulated
from .test_compiled import code

ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_120"]
BY_TORCH = ("erfcx", "gammaln", "log_ndtr", "ndtri", "xlog1py", "xlogy")
OWN_ORDERS = tuple(name for name in BESSEL if name not in ("jve", "yve"))  # Those have the derivatives of jv and yv.
PARTS = {"zeta": ("riemann_zeta", "hurwitz_zeta")}
"""Operators in torch that call others, which have the kernels."""


def line(low, high):
    return torch.linspace(low, high, 1013, dtype=torch.float64)


def pairs():
    """Two positive numbers, the second one left and right of the first."""
    first = torch.logspace(-3, 4, 29, dtype=torch.float64).repeat_interleave(35)
    return first, first * torch.logspace(-2, 1, 35, dtype=torch.float64).repeat(29)


def draws(*ranges):
    """Random numbers of these ranges; of the first argument every fifth is an integer."""
    generator = torch.Generator().manual_seed(1)
    made = [low + (high - low) * torch.rand(613, generator=generator, dtype=torch.float64) for low, high in ranges]
    made[0][::5] = made[0][::5].round()
    return made


def orders():
    """Orders of Bessel functions, some large, and arguments."""
    order, log = draws((-20, 60), (-7, 9))
    return order * torch.tensor([1.0, 100.0]).repeat(307)[:613], log.exp()


def integer_orders():
    order, x = draws((0, 60), (-30, 30))
    return order.round(), x


def student():
    """Degrees of freedom, t and p."""
    freedom, t = draws((0.1, 30), (-5, 5))
    return freedom, t, torch.from_numpy(scipy.special.stdtr(freedom.numpy(), t.numpy()))


OURS = {
    "lambertw": (lambert.lambertw, lambda: (line(-0.36, 5),)),
    "lambertw, the other branch": (lambert.lambertw, lambda: (line(-0.36, -1e-6), -1)),
    "lambertw'": (lambert.lambertw_nth, lambda: (line(-0.36, 5), 0, 1)),
    "lambertw''": (lambert.lambertw_nth, lambda: (line(-0.36, 5), 0, 2)),
    "log_ndtr'": (normal.log_ndtr_by_x, lambda: (line(-40, 9),)),
    "ndtri'": (normal.ndtri_by_y, lambda: (line(-9, 9), torch.special.ndtr(line(-9, 9)))),
    "quotient": (logarithms.quotient, lambda: (line(-2, 2), torch.tensor(0.3))),
    "gammainc, by a": (incomplete_gamma.gammainc_by_a, pairs),
    "gammainc, by x": (incomplete_gamma.gamma_density, pairs),
    "digamma of a positive number": (incomplete_gamma.psi_of, lambda: (line(0.1, 30),)),
    "chdtr, by v": (distributions.chdtr_by_v, pairs),
    "chdtr, by x": (distributions.chi_pdf, pairs),
    "pdtr, by m": (distributions.poisson_mass, pairs),
    "ellipk'": (elliptic.ellipk_nth, lambda: (line(-9, 0.999), 1)),
    "ellipkm1''": (elliptic.ellipkm1_nth, lambda: (line(0.001, 9), 2)),
    "ellipe'": (elliptic.ellipe_nth, lambda: (line(-9, 0.999), 1)),
    "boxcox, by x": (logarithms.boxcox_by_x, lambda: (line(0.1, 9), line(-2, 2), 0)),
    "boxcox, by lmbda": (logarithms.boxcox_by_lmbda, lambda: (line(0.1, 9), line(-2, 2), 1)),
    "owens_t, by h": (owens.owens_t_nth, lambda: (line(-5, 5), line(-3, 9), 1, 0)),
    "owens_t, by a": (owens.owens_t_nth, lambda: (line(-5, 5), line(-3, 9), 0, 1)),
    "inv_boxcox, by y": (logarithms.inv_boxcox_by_y, lambda: (line(-0.4, 2), line(-0.4, 1))),
    "inv_boxcox, by lmbda": (logarithms.inv_boxcox_by_lmbda, lambda: (line(-0.4, 2), line(-0.4, 1))),
    "polygamma": (special.polygamma, lambda: (draws((0, 20))[0].round(), line(-9, 30)[:613])),
    "polygamma of 171": (special.polygamma, lambda: (torch.tensor(171.0), line(1, 200))),
    "digamma of any number": (psi_at, lambda: (line(-9, 30),)),
    "betaln, by a": (betaln_by_a, lambda: draws((-9, 30), (0, 30))),
    "betaln, by a and a": (betaln_by_a_a, lambda: draws((0, 30), (0, 30))),
    "zeta'": (hurwitz.riemann_nth, lambda: (line(-30, 30), 1)),
    "zeta of two": (hurwitz.hurwitz_zeta, lambda: draws((1, 30), (0, 30))),
    "zeta of two, by x and q": (hurwitz.hurwitz_nth, lambda: (*draws((1, 30), (0, 30)), 1, 1)),
    "airy, d2": (airy_nth, lambda: (line(2, 9), 2)),
    "stdtr, by df": (distributions.stdtr_by_df, lambda: draws((0.1, 30), (-5, 5))),
    "stdtr, by t": (distributions.student_pdf, lambda: draws((0.1, 30), (-5, 5))),
    "stdtrit, by df": (distributions.stdtrit_by_df, student),
    "stdtrit, by p": (distributions.stdtrit_by_p, student),
    "exp1'": (integrals.exp1_nth, lambda: (line(0.1, 30), 1)),
    "expi''": (integrals.expi_nth, lambda: (line(-9, 30), 2)),
    "expn'": (integrals.expn_nth, lambda: (draws((1, 20))[0].round(), line(0.1, 30)[:613], 1)),
    "spence'": (integrals.spence_nth, lambda: (line(0.1, 3), 1)),
    "dawsn'": (integrals.dawsn_nth, lambda: (line(1, 3), 1)),
    "erfi'": (integrals.erfi_nth, lambda: (line(-9, 9), 1)),
    "erfcx'": (integrals.erfcx_nth, lambda: (line(-9, 9), 1)),
    "si'": (integrals.si_nth, lambda: (line(-9, 9), 1)),
    "ci'": (integrals.ci_nth, lambda: (line(-9, 9), 1)),
    "shi'": (integrals.shi_nth, lambda: (line(-9, 9), 1)),
    "chi'": (integrals.chi_nth, lambda: (line(-9, 9), 1)),
    "fresnel_s'": (integrals.fresnel_s_nth, lambda: (line(-9, 9), 1)),
    "fresnel_c'": (integrals.fresnel_c_nth, lambda: (line(-9, 9), 1)),
    **{f"{name}''": (getattr(bessel, f"{name}_nth"), lambda: (*orders(), 2)) for name in OWN_ORDERS},
    **{f"{name}', by v": (getattr(bessel, f"{name}_by_order"), lambda: (*orders(), 1)) for name in OWN_ORDERS},
    **{f"{name}'": (getattr(of_integer_order, f"{name}_nth"), lambda: (*integer_orders(), 1)) for name in SPHERICAL},
    **{f"{name}, d3": (getattr(of_integer_order, f"{name}_nth"), lambda: (*integer_orders(), 3)) for name in SPHERICAL},
}
"""Functions in C, with arguments."""


def test_which_functions_run_on_cuda():
    served = {name for name, op in PUBLIC.items() if "cuda" in op._record.devices()}
    for name, parts in PARTS.items():
        if all("cuda" in getattr(hurwitz, part)._record.devices() for part in parts):
            served.add(name)
    assert served == {*PARTS, *BY_ONE_TEXT, *BY_TORCH, *BY_C}
    root = Path(__file__).parents[2]
    for text, count in [
        ("docs/cuda.md", "{} functions"),
        ("docs/cuda.zh.md", "{} 个函数"),
        ("CHANGELOG.md", "{} special"),
    ]:
        assert count.format(len(served)) in (root / text).read_text().replace("\n ", "")
    page = (root / "docs/scipy.md").read_text()
    (refused,) = re.findall(r"\*\*On CUDA\*\* .*? but for (.*?)\.", page, re.S)
    assert set(re.findall(r"`(\w+)`", refused)) == set(PUBLIC) - served


@pytest.mark.parametrize("name", BY_TORCH)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_values_of_torch_are_those_of_scipy(name, dtype):
    """The kernel for CUDA, run on the CPU: torch has one text for both."""
    op = PUBLIC[name]
    x = torch.linspace(-30, 9, 997, dtype=torch.float64)
    y = torch.linspace(0.01, 0.99, 997, dtype=torch.float64)
    of_one = {"erfcx": x.clamp(-20), "gammaln": x, "log_ndtr": x, "ndtri": y}
    args = [a.to(dtype) for a in ([of_one[name]] if name in of_one else [x, y])]
    made, expected = op._record.kernels["cuda"].call(*args), op(*args)
    assert made.dtype == expected.dtype
    tolerance = 1e-14 if made.dtype is torch.float64 else torch.finfo(made.dtype).eps
    atol = 1e-15 if name == "gammaln" else 0  # It has zeros.
    torch.testing.assert_close(made, expected, rtol=tolerance, atol=atol, equal_nan=True)


WIDE = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "wide_abs(y)": lambda x, y: abs(y),
    "wide_sqrt(x)": lambda x, y: mpmath.sqrt(x),
    "wide_exp(y * 20)": lambda x, y: mpmath.exp(20 * y),
    "wide_log(x)": lambda x, y: mpmath.log(x),
    "wide_sinh(y)": lambda x, y: mpmath.sinh(y),
    "wide_sinh(y / 100)": lambda x, y: mpmath.sinh(y / 100),
    "wide_sin(y)": lambda x, y: mpmath.sin(y),
    "wide_cos(y * 100)": lambda x, y: mpmath.cos(y * 100),
    "wide_asin(y / 31)": lambda x, y: mpmath.asin(y / 31),
    "wide_log_gamma(x + 100)": lambda x, y: mpmath.loggamma(x + 100),
    "WIDE_PI * x / WIDE_LN2": lambda x, y: mpmath.pi * x / mpmath.log(2),
}
"""Expressions of `wide.h`, and the same in many digits; the arguments are a third of numbers."""


INFINITE = "w + 1", "1 - w", "w * 2", "w / 2", "1 / w", "wide_exp(w)", "wide_log(w)", "wide_sqrt(w)", "wide_abs(w)"


def one_of(expressions):
    """C that gives `r` the value of the expression number `which`: all of them are compiled once."""
    cases = "".join(f" case {i}: r = {expression}; break;" for i, expression in enumerate(expressions))
    return f"switch (which) {{{cases} }}"


@pytest.fixture(scope="module")
def parts():
    head = kernel_text("wide.h")
    body = f"wide x = (wide)a / 3, y = (wide)b / 3, r = 0; {one_of(WIDE)} *hi = (double)r; *lo = (double)(r - *hi);"

    @tg.op(kernel=source(f"{head}\nvoid parts(double a, double b, int64_t which, double *hi, double *lo) {{ {body} }}"))
    def parts(
        a: Float64[Tensor, "..."], b: Float64[Tensor, "..."], which: int
    ) -> tuple[Float64[Tensor, "..."], Float64[Tensor, "..."]]:
        return tg.native

    return parts


@pytest.mark.parametrize("expression", WIDE)
def test_wide_numbers_have_their_digits(parts, expression):
    log, b = draws((-9, 9), (-90, 90))
    a = log.exp()
    with emulated():
        hi, lo = parts(a, b, list(WIDE).index(expression))
    with mpmath.workprec(300):
        for x, y, high, low in zip(*(value.tolist() for value in (a, b, hi, lo)), strict=True):
            exact = WIDE[expression](mpmath.mpf(x) / 3, mpmath.mpf(y) / 3)
            assert abs(high + mpmath.mpf(low) - exact) <= 2**-75 * abs(exact)


@pytest.fixture(scope="module")
def wide_and_plain():
    wide = f"wide w = x, r = 0; {one_of(INFINITE)} return (double)r - 0.0;"
    plain = [expression.replace("wide_abs", "fabs").replace("wide_", "") for expression in INFINITE]

    @tg.op(kernel=source(f"{kernel_text('wide.h')}\ndouble at(double x, int64_t which) {{ {wide} }}"))
    def at(x: Float64[Tensor, "..."], which: int) -> Float64[Tensor, "..."]:
        return tg.native

    head = "#include <math.h>\n#include <stdint.h>\ndouble by_c(double w, int64_t which)"

    @tg.op(kernel=source(f"{head} {{ double r = 0; {one_of(plain)} return r; }}"))
    def by_c(w: Float64[Tensor, "..."], which: int) -> Float64[Tensor, "..."]:
        return tg.native

    return at, by_c


@pytest.mark.parametrize("expression", INFINITE)
def test_wide_numbers_are_infinite_as_others_are(wide_and_plain, expression):
    at, by_c = wide_and_plain
    which = INFINITE.index(expression)
    x = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, sys.float_info.max], dtype=torch.float64)
    with emulated():
        made = at(x, which)
    torch.testing.assert_close(made, by_c(x, which), rtol=1e-15, atol=0, equal_nan=True)


def in_c(name):
    return OURS[name][0]._record.natives()[0] if name in OURS else on_cuda(name)


IN_C = [*OURS, *(name for name in (*BY_C, *BY_ONE_TEXT) if name not in OURS), "riemann_zeta"]
FIRST, FIRST_SERVED = (first_of_each(names, lambda name: [max(in_c(name).source.parts, key=len)])
                       for names in (IN_C, SERVED))  # fmt: skip
"""The first functions of each source; the others are looked at in all tests."""


@pytest.mark.parametrize("name", by_default(OURS, FIRST.__contains__))
def test_functions_in_c_give_what_the_cpu_gives(name):
    op, make = OURS[name]
    with emulated() as driver:
        made = op(*make())
        assert driver.launches
    made = tuple(value[:-1] for value in made) if isinstance(made, tuple) else made[:-1]
    # Of another size: an operator remembers by sizes and devices what a call needs.
    expected = op(*(a[:-1] if isinstance(a, torch.Tensor) and a.dim() else a for a in make()))
    torch.testing.assert_close(made, expected, rtol=5e-13, atol=0, equal_nan=True)


@pytest.mark.filterwarnings("ignore:floating point number truncated")  # SciPy's, of the order of expn.
@pytest.mark.parametrize(("name", "label"), by_default(CASES, lambda name, label: name in FIRST_SERVED))
def test_values_of_our_own_are_right_wherever_those_of_the_cpu_are(name, label):
    with emulated() as driver:
        outputs = found(name, label, inputs_of(label))
        assert driver.launches
    assert misses(label, outputs, slack=4) == []


def anywhere(name):
    """Random arguments of all sizes; every second pair are neighbours, as far apart as a standard deviation or so."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    sample = next(told for told in FUNCTIONS.values() if told["name"] == name)
    logs = torch.rand(len(sample["rows"][0][0]), 601, generator=generator, dtype=torch.float64) * 27 - 7
    signs = torch.randint(0, 2, logs.shape, generator=generator) * 2 - 1
    args = list(logs.exp() * signs)
    if len(args) == 2:
        size = args[0].abs().sqrt().clamp(min=1)
        args[1][::2] = (args[0] + torch.randn(601, generator=generator, dtype=torch.float64) * 4 * size)[::2]
    if name == "stdtrit":
        args[1] = torch.rand(601, generator=generator, dtype=torch.float64)
    if name in (*SPHERICAL, "expn", "polygamma"):
        args[0] = args[0].abs().round().clamp(max=200 if name == "polygamma" else 3000)
    return args


@pytest.mark.parametrize("name", by_default(SERVED, FIRST_SERVED.__contains__))
def test_values_of_our_own_are_those_of_the_cpu_at_random_points(name):
    """Each of both sides finds errors of the other; next to zeros they may differ."""
    args = anywhere(name)
    native = on_cuda(name)
    options = [False] if name in SPHERICAL else []
    results = [((601,), torch.float64)] * len(native.prototype.results)
    with emulated():
        made = native.run([*args, *options], [0] * len(args), 0, results, {})
    on_cpu = PUBLIC[name](*args)
    for ours, other in zip(made, on_cpu if isinstance(on_cpu, tuple) else [on_cpu], strict=True):
        size = torch.maximum(ours.abs(), other.abs())
        same = (ours == other) | (ours.isnan() & other.isnan()) | (size < 1e-300)
        apart = torch.where(same, 0, (ours - other).abs() / size).nan_to_num(math.inf)
        assert apart.max() < 1e-7, [arg[apart.argmax()].item() for arg in args]
        assert (apart > 1e-11).sum() < 3


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_values_of_our_own_are_those_of_scipy(name):
    a, x = pairs()
    with emulated():
        (made,) = on_cuda(name).run([a, x], [0, 0], 0, [(a.shape, torch.float64)], {})
    torch.testing.assert_close(made, PUBLIC[name](a, x), rtol=2e-13, atol=1e-300)


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_there(), reason="NVRTC is not installed")
@pytest.mark.parametrize(
    ("name", "architecture"),
    [(name, one) for name in IN_C for one in (ARCHITECTURES if name in FIRST else ["sm_90"])],
)
def test_functions_in_c_compile_for_every_architecture(name, architecture):
    native = in_c(name)
    # Others than one as those that take long are compiled, which takes half the time.
    flags = [] if architecture == "sm_90" else [nvrtc.less_inlining()]
    assert code(native, torch.float64, architecture, flags=flags).startswith(b"\x7fELF")
