"""What `torchgraft.scipy` costs beside SciPy: values, gradients, single calls, filters and other functions of arrays.

Ours and SciPy's in turn within a round, medians of the rounds. Run it as

    python benchmarks/beside_scipy.py               # prints the table
    python benchmarks/beside_scipy.py values kv     # a part of it, for some functions alone
    python benchmarks/beside_scipy.py --write       # and puts it into docs/scipy.md

The row of torchlpc needs that package.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import scipy.fft
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.special
import torch
from _timing import Row, difference, interleave, machine, ms, put, ratio, us
from torch import Tensor

from torchgraft.scipy import fft, ndimage, optimize, signal, special

PAGE = Path(__file__).parent.parent / "docs" / "scipy.md"
SIZE = 1_000_000
SECONDS = 8.0
"""About as long as the rounds of one row may take, of which there are at least five."""

RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "gammainc": ((0.1, 100), (0.1, 100)), "gammaincc": ((0.1, 100), (0.1, 100)),
    "gammaincinv": ((0.1, 100), (0, 1)), "gammainccinv": ((0.1, 100), (0, 1)),
    "betainc": ((0.1, 100), (0.1, 100), (0, 1)), "betaincc": ((0.1, 100), (0.1, 100), (0, 1)),
    "betaincinv": ((0.1, 100), (0.1, 100), (0, 1)), "betainccinv": ((0.1, 100), (0.1, 100), (0, 1)),
    "gammaln": ((0.1, 100),), "betaln": ((0.1, 100), (0.1, 100)), "digamma": ((0.1, 100),),
    "stdtr": ((0.5, 50), (-5, 5)), "stdtrit": ((0.5, 50), (0, 1)), "fdtr": ((1, 50), (1, 50), (0, 5)),
    "chdtr": ((0.5, 50), (0, 100)), "chdtrc": ((0.5, 50), (0, 100)), "pdtr": ((0, 50), (0.1, 50)),
    "jv": ((0, 20), (0.1, 50)), "yv": ((0, 20), (0.1, 50)), "iv": ((0, 20), (0.1, 50)), "kv": ((0, 20), (0.1, 50)),
    "jve": ((0, 20), (0.1, 50)), "yve": ((0, 20), (0.1, 50)), "ive": ((0, 20), (0.1, 50)), "kve": ((0, 20), (0.1, 50)),
    "exp1": ((0.01, 20),), "expi": ((-20, 20),), "ellipk": ((-5, 1),), "ellipkm1": ((0, 2),), "ellipe": ((-5, 1),),
    "erfcx": ((-5, 20),), "erfi": ((-5, 5),), "dawsn": ((-20, 20),), "spence": ((0, 20),),
    "owens_t": ((-5, 5), (-5, 5)),
    "sici": ((-50, 50),), "shichi": ((-20, 20),), "fresnel": ((-20, 20),), "airy": ((-20, 10),),
    "struve": ((-2, 20), (0.1, 50)), "hyp0f1": ((0.5, 10), (-20, 20)), "hyp1f1": ((0.5, 10), (0.5, 10), (-10, 10)),
    "hyp2f1": ((0.5, 5), (0.5, 5), (0.5, 10), (-1, 0.9)), "xlogy": ((0, 5), (0.1, 5)), "xlog1py": ((0, 5), (0.1, 5)),
    "boxcox": ((0.1, 10), (-2, 2)), "inv_boxcox": ((0.1, 2), (0.1, 2)), "ndtri": ((0, 1),), "log_ndtr": ((-20, 5),),
    "polygamma": ((0, 5), (0.1, 100)), "zeta": ((1.1, 20), (0.1, 20)), "lambertw": ((-0.3, 20),),
    "expn": ((0, 10), (0.01, 20)), "spherical_jn": ((0, 20), (0.1, 50)), "spherical_yn": ((0, 20), (0.1, 50)),
    "spherical_in": ((0, 20), (0.1, 50)), "spherical_kn": ((0, 20), (0.1, 50)),
}  # fmt: skip
"""Where the arguments of each function lie, drawn evenly."""

ORDERED = frozenset({"polygamma", "expn", "spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"})
"""The functions whose first argument is an integer."""

PARAMETERS = {"gammainc": [0], "betainc": [0, 1], "kv": [0], "jv": [0]}
"""Of the functions whose gradient is measured, what it is taken by."""

Made = Iterator[Row]


def drawn(name: str, size: int = SIZE) -> list[Tensor]:
    """The arguments of a function."""
    generator = torch.Generator().manual_seed(0)
    first, *others = (
        low + (high - low) * torch.rand(size, dtype=torch.float64, generator=generator) for low, high in RANGES[name]
    )
    return [first.long() if name in ORDERED else first, *others]


def timed(functions: dict[str, Callable[[], object]], seconds: float = SECONDS) -> dict[str, list[float]]:
    """Interleaved, in as many rounds as there is time for."""
    (once,) = zip(*interleave(functions, 1, rounds=1).values(), strict=True)
    return interleave(functions, 1, rounds=max(5, min(60, math.ceil(seconds / sum(once)))))


def with_threads(count: int, function: Callable[..., Any], *arguments: Any) -> Any:
    torch.set_num_threads(count)
    try:
        return function(*arguments)
    finally:
        torch.set_num_threads(1)


def values(names: Sequence[str]) -> Made:
    """Each function on one thread and on two, beside the ufunc."""
    for name in filter(RANGES.__contains__, names):
        arguments = drawn(name)
        arrays = [argument.numpy() for argument in arguments]
        ours, theirs = getattr(special, name), getattr(scipy.special, name)
        times = timed({
            "one": functools.partial(ours, *arguments),
            "two": functools.partial(with_threads, 2, ours, *arguments),
            "scipy": functools.partial(theirs, *arrays),
        })  # fmt: skip
        one, two = (ratio(times["scipy"], times[which]) for which in ("one", "two"))
        yield Row(
            f"`{name}`, one thread / two", f"{ms(times['one'])} / {ms(times['two'])}", ms(times["scipy"]),
            f"{one:.2f} x / {two:.2f} x", "1.0 x / 1.8 x",
        )  # fmt: skip


def gradients(names: Sequence[str]) -> Made:
    """Value and gradient in the parameters, beside the value alone."""
    for name in filter(PARAMETERS.__contains__, names):
        function, plain = getattr(special, name), drawn(name)
        leaves = [x.clone().requires_grad_(i in PARAMETERS[name]) for i, x in enumerate(plain)]
        wanted, ones = [x for x in leaves if x.requires_grad], torch.ones(SIZE, dtype=torch.float64)

        def both(function: Any = function, leaves: Any = leaves, wanted: Any = wanted, ones: Any = ones) -> object:
            return torch.autograd.grad(function(*leaves), wanted, ones)

        times = timed({"both": both, "value": functools.partial(function, *plain)})
        by = ", ".join("abv"[2 if name in ("kv", "jv") else i] for i in PARAMETERS[name])
        yield Row(
            f"`{name}` and its gradient in {by}, beside the value", ms(times["both"]), ms(times["value"]),
            f"{ratio(times['both'], times['value']):.2f} x", "6 x",
        )  # fmt: skip


def scalars(names: Sequence[str]) -> Made:
    """One number at a time."""
    for name in filter(RANGES.__contains__, names):
        numbers = [argument[0] for argument in drawn(name)]
        floats = [number.item() for number in numbers]
        ours, theirs = getattr(special, name), getattr(scipy.special, name)
        times = interleave({"ours": lambda: ours(*numbers), "scipy": lambda: theirs(*floats)}, 2000, rounds=30)  # noqa: B023
        more = difference(times["ours"], times["scipy"])
        yield Row(f"`{name}` of one number", us(times["ours"]), us(times["scipy"]), f"{more:+.2f} us", "3 us")


def filters(names: Sequence[str]) -> Made:
    """A recursive filter forward and backward, beside SciPy's forward alone, and beside torchlpc."""
    if "lfilter" not in names:
        return
    generator = torch.Generator().manual_seed(0)
    b, a = (torch.tensor(x, dtype=torch.float32) for x in scipy.signal.butter(4, 0.2))
    x = torch.randn(64, 16000, generator=generator)
    leaves = [t.clone().requires_grad_() for t in (b, a, x)]
    ones = torch.ones_like(x)
    plain = [t.numpy() for t in (b, a, x)]

    def ours() -> object:
        return torch.autograd.grad(signal.lfilter(*leaves), leaves, ones)

    functions = {
        "ours": ours,
        "two": functools.partial(with_threads, 2, ours),
        "scipy": functools.partial(scipy.signal.lfilter, *plain),
    }
    if importlib.util.find_spec("torchlpc"):
        functions["torchlpc"] = _torchlpc(leaves, ones)
    times = timed(functions)
    what = "`lfilter`, 64 x 16000 float32, forward and backward"
    yield Row(
        f"{what}, beside SciPy's forward", ms(times["ours"]), ms(times["scipy"]),
        f"{ratio(times['ours'], times['scipy']):.2f} x", "3 x",
    )  # fmt: skip
    yield Row(
        f"{what}, two threads beside one", ms(times["two"]), ms(times["ours"]),
        f"{ratio(times['two'], times['ours']):.2f} x", "",
    )  # fmt: skip
    if "torchlpc" in times:
        yield Row(
            f"{what}, beside torchlpc", ms(times["ours"]), ms(times["torchlpc"]),
            f"{ratio(times['ours'], times['torchlpc']):.2f} x", "",
        )  # fmt: skip


def _torchlpc(leaves: Sequence[Tensor], ones: Tensor) -> Callable[[], object]:
    """The same filter: the numerator by a convolution, the denominator by torchlpc, whose coefficients vary in time."""
    from torchlpc import sample_wise_lpc

    b, a, x = leaves

    def run() -> object:
        padded = torch.nn.functional.pad(x[:, None], (len(b) - 1, 0))
        drive = torch.nn.functional.conv1d(padded, b.flip(0)[None, None])[:, 0]
        coefficients = (a[1:] / a[0]).expand(*x.shape, len(a) - 1)
        return torch.autograd.grad(sample_wise_lpc(drive / a[0], coefficients), leaves, ones)

    return run


def arrays(names: Sequence[str]) -> Made:
    """Functions of whole arrays, forward and with all gradients, each beside SciPy's forward."""
    for name, (what, ours, theirs, leaves) in whole_arrays().items():
        if name not in names:
            continue
        both = functools.partial(_with_gradients, ours, [leaf.clone().requires_grad_() for leaf in leaves])
        times = timed({
            "value": functools.partial(ours, *leaves),
            "both": both,
            "scipy": functools.partial(theirs, *(leaf.numpy() for leaf in leaves)),
        })  # fmt: skip
        value, gradient = (ratio(times[which], times["scipy"]) for which in ("value", "both"))
        yield Row(
            f"`{name}`, {what}; with all gradients, beside SciPy's value",
            f"{ms(times['value'])} / {ms(times['both'])}", ms(times["scipy"]), f"{value:.2f} x / {gradient:.2f} x", "",
        )  # fmt: skip


def whole_arrays() -> dict[str, tuple[str, Callable[..., Tensor], Callable[..., Any], list[Tensor]]]:
    """Of each function: on what, ours, SciPy's, and the arguments, all of which have gradients."""
    generator = torch.Generator().manual_seed(0)
    draw = functools.partial(torch.randn, generator=generator, dtype=torch.float64)
    image, width = draw(512, 512), torch.tensor(2.0, dtype=torch.float64)
    places = 511 * torch.rand(2, 250_000, generator=generator, dtype=torch.float64)
    sections = torch.from_numpy(scipy.signal.butter(8, 0.2, output="sos"))
    return {
        "sosfilt": (
            "64 x 16000", signal.sosfilt, scipy.signal.sosfilt, [sections, draw(64, 16000)],
        ),
        "correlate": (
            "512 x 512 and 31 x 31", signal.correlate, scipy.signal.correlate, [image, draw(31, 31)],
        ),
        "map_coordinates": (
            "512 x 512 at 250000 points", ndimage.map_coordinates, scipy.ndimage.map_coordinates, [image, places],
        ),
        "gaussian_filter": (
            "512 x 512", ndimage.gaussian_filter, scipy.ndimage.gaussian_filter, [image, width],
        ),
        "dct": (
            "512 x 512", fft.dct, scipy.fft.dct, [image],
        ),
        "linear_sum_assignment": (
            "256 x 256, the cost", _cost, _cost_of_scipy, [draw(256, 256)],
        ),
    }  # fmt: skip


def _with_gradients(function: Callable[..., Tensor], leaves: Sequence[Tensor]) -> object:
    return torch.autograd.grad(function(*leaves).sum(), leaves)


def _cost(costs: Tensor) -> Tensor:
    return costs[optimize.linear_sum_assignment(costs)].sum()


def _cost_of_scipy(costs: Any) -> Any:
    return costs[scipy.optimize.linear_sum_assignment(costs)].sum()


PARTS = {"values": values, "gradients": gradients, "scalars": scalars, "filters": filters, "arrays": arrays}


def summary(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    lines = ["| | torchgraft | rival | result | bar |", "|---|---|---|---|---|"]
    lines += [f"| {row.what} | {row.ours} | {row.rival} | **{row.result}** | {row.bar} |" for row in rows]
    note = "A million float64 elements where nothing else is said; medians of at least 5 interleaved rounds; "
    return "\n".join([*lines, "", f"{note}{machine()}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"parts ({', '.join(PARTS)}) and functions; all by default")
    parser.add_argument("--write", action="store_true", help="put the table into docs/scipy.md")
    options = parser.parse_args()
    parts = [part for name, part in PARTS.items() if name in options.names] or list(PARTS.values())
    named = [name for name in options.names if name not in PARTS]
    torch.set_num_threads(1)
    rows = []
    for part in parts:
        for row in part(named or [*RANGES, "lfilter", *whole_arrays()]):
            print(f"{row.what}: {row.ours}, {row.rival}: {row.result} (bar {row.bar or 'none'})", flush=True)
            rows.append(row)
    text = summary(rows)
    print(text)
    if options.write:
        put("speed", text, [PAGE])


if __name__ == "__main__":
    main()
