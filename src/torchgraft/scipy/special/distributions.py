"""Distribution functions of Student's t, F, chi-square and Poisson, differentiable in degrees of freedom too.

Values are SciPy's, but for quantiles t of Student's that have lost digits next to 0 or far out, and for far tails and
tiny parameters. Those of Student's and its derivatives come from `kernels/student.c`
and those of F from `kernels/fisher.c`, which say how; chi-square and Poisson are incomplete gamma functions. Second
derivatives are there but for those in parameters.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .gamma import psi_of
from .refusals import no_second_derivative
from .sources import mended, ours

# -- derivatives of Student's distribution ---------------------------------------------------------------------------


@tg.op(kernel=ours("student.c", "student_pdf", "student_density(df, t)", "df t"))
def student_pdf(df: Real[Tensor, "..."], t: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dF/dt, the density."""


@tg.op(kernel=ours("student.c", "student_score_of", "student_score(df, t)", "df t"))
def student_score_of(df: Real[Tensor, "..."], t: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """D log(density) in df."""


@tg.op(kernel=ours("student.c", "stdtr_by_df", "stdtr_dv(df, t)", "df t"))
def stdtr_by_df(df: Real[Tensor, "..."], t: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dF/d df of F."""


@tg.op(kernel=ours("student.c", "stdtrit_by_df", "stdtrit_dv(df, t, p)", "df t p"))
def stdtrit_by_df(df: Real[Tensor, "..."], t: Real[Tensor, "..."], p: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dt/d df at a given p = F(t): -(dF/d df) / density."""


@tg.op(kernel=ours("student.c", "stdtrit_by_p", "stdtrit_dp(df, t, p)", "df t p"))
def stdtrit_by_p(df: Real[Tensor, "..."], t: Real[Tensor, "..."], p: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dt/dp where p = F(t): 1 / density, without the error of t, which the density multiplies by t^2."""


def _fall(df: Tensor, t: Tensor) -> Any:
    """-d log(density) / dt."""
    return (df + 1) * t / (df + t * t)


@student_pdf.partial("df")
def _(df: Tensor, t: Tensor, out: Tensor) -> Any:
    return out * student_score_of(df, t)


@student_pdf.partial("t")
def _(df: Tensor, t: Tensor, out: Tensor) -> Any:
    return -out * _fall(df, t)


@student_score_of.partial("t")
def _(df: Tensor, t: Tensor) -> Any:
    return t * (1 - t * t) / (df + t * t) ** 2


@stdtr_by_df.partial("t")
def _(df: Tensor, t: Tensor) -> Any:
    return student_pdf(df, t) * student_score_of(df, t)


@stdtrit_by_df.partial("t")
def _(df: Tensor, t: Tensor, out: Tensor) -> Any:
    return out * _fall(df, t) - student_score_of(df, t)


@stdtrit_by_p.partial("t")
def _(df: Tensor, t: Tensor, out: Tensor) -> Any:
    return out * _fall(df, t)


@stdtrit_by_p.partial("df")
def _(df: Tensor, t: Tensor, out: Tensor) -> Any:
    return -out * student_score_of(df, t)


# As functions of df and t alone, which they are where p = F(t), they do not depend on p: it is there for its digits.
stdtrit_by_df.partial("p")(lambda p: p.new_zeros(()))
stdtrit_by_p.partial("p")(lambda p: p.new_zeros(()))

no_second_derivative(student_score_of, "stdtr", "df")
no_second_derivative(stdtr_by_df, "stdtr", "df")
no_second_derivative(stdtrit_by_df, "stdtrit", "df")

# -- derivatives of the F distribution -------------------------------------------------------------------------------


@tg.op(kernel=ours("fisher.c", "fisher_pdf", "fisher_density(dfn, dfd, x)", "dfn dfd x"))
def fisher_pdf(dfn: Real[Tensor, "..."], dfd: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dF/dx, the density."""


@tg.op(kernel=ours("fisher.c", "fisher_score_n", "fisher_score_dfn(dfn, dfd, x)", "dfn dfd x"))
def fisher_score_n(dfn: Real[Tensor, "..."], dfd: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """D log(density) in dfn."""


@tg.op(kernel=ours("fisher.c", "fisher_score_d", "fisher_score_dfd(dfn, dfd, x)", "dfn dfd x"))
def fisher_score_d(dfn: Real[Tensor, "..."], dfd: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """D log(density) in dfd."""


@tg.op(kernel=ours("fisher.c", "fdtr_by_dfn", "fdtr_dfn(dfn, dfd, x)", "dfn dfd x"))
def fdtr_by_dfn(dfn: Real[Tensor, "..."], dfd: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dF/d dfn of F."""


@tg.op(kernel=ours("fisher.c", "fdtr_by_dfd", "fdtr_dfd(dfn, dfd, x)", "dfn dfd x"))
def fdtr_by_dfd(dfn: Real[Tensor, "..."], dfd: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dF/d dfd of F."""


@fisher_pdf.partial("dfn")
def _(dfn: Tensor, dfd: Tensor, x: Tensor, out: Tensor) -> Any:
    return out * fisher_score_n(dfn, dfd, x)


@fisher_pdf.partial("dfd")
def _(dfn: Tensor, dfd: Tensor, x: Tensor, out: Tensor) -> Any:
    return out * fisher_score_d(dfn, dfd, x)


@fisher_pdf.partial("x")
def _(dfn: Tensor, dfd: Tensor, x: Tensor, out: Tensor) -> Any:
    return -out * (1 + dfn / 2 * dfd * (x - 1) / (dfn * x + dfd)) / x


@fisher_score_n.partial("x")
def _(dfn: Tensor, dfd: Tensor, x: Tensor) -> Any:
    return (dfd / (dfn * x + dfd)) ** 2 * (1 / x - 1) / 2


@fisher_score_d.partial("x")
def _(dfn: Tensor, dfd: Tensor, x: Tensor) -> Any:
    return (dfn / (dfn * x + dfd)) ** 2 * (1 - x) / 2


@fdtr_by_dfn.partial("x")
def _(dfn: Tensor, dfd: Tensor, x: Tensor) -> Any:
    return fisher_pdf(dfn, dfd, x) * fisher_score_n(dfn, dfd, x)


@fdtr_by_dfd.partial("x")
def _(dfn: Tensor, dfd: Tensor, x: Tensor) -> Any:
    return fisher_pdf(dfn, dfd, x) * fisher_score_d(dfn, dfd, x)


for derivative in (fisher_score_n, fisher_score_d, fdtr_by_dfn, fdtr_by_dfd):
    no_second_derivative(derivative, "fdtr", "dfn", "dfd")

# -- derivatives of the chi-square distribution ----------------------------------------------------------------------


@tg.op(kernel=ours("gamma.c", "chi_pdf", "chi_density(v, x)", "v x"))
def chi_pdf(v: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dP/dx, the density."""


@tg.op(kernel=ours("gamma.c", "chdtr_by_v", "chdtr_dv(v, x)", "v x"))
def chdtr_by_v(v: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dP/dv of P."""


def _log_gap(v: Tensor, x: Tensor) -> Any:
    """D log(density) / dv."""
    return ((x / 2).log() - psi_of(v / 2)) / 2


@chi_pdf.partial("v")
def _(v: Tensor, x: Tensor, out: Tensor) -> Any:
    return out * _log_gap(v, x)


@chi_pdf.partial("x")
def _(v: Tensor, x: Tensor, out: Tensor) -> Any:
    return out * ((v / 2 - 1) / x - 0.5)


@chdtr_by_v.partial("x")
def _(v: Tensor, x: Tensor) -> Any:
    return chi_pdf(v, x) * _log_gap(v, x)


no_second_derivative(chdtr_by_v, "chdtr", "v")

# -- the Poisson distribution ----------------------------------------------------------------------------------------

COUNTED = "events are counted: the function is constant between integers"


@tg.op(kernel=ours("gamma.c", "poisson_mass", "density_of_gamma(floor(k) + 1, m)", "k m"))
def poisson_mass(k: Real[Tensor, "..."], m: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The probability of floor(k) events. An operator of k, so that what rests on it has no derivative in k either."""


@poisson_mass.partial("m")
def _(k: Tensor, m: Tensor, out: Tensor) -> Any:
    """The mass of one event less, of which there is none less than 0, minus the mass: also at m = 0."""
    return torch.where(k < 1, -out, poisson_mass(k.clamp(min=1) - 1, m) - out)


poisson_mass.nondifferentiable("k", reason=COUNTED)

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=mended("student.c", "stdtr", "stdtr_value(df, t, SCIPYS)", "df t", "__pyx_fuse_0stdtr"))
@tg.domain(df="positive", t="real")
def stdtr(df: Real[Tensor, "..."], t: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Student's distribution function, the integral of the density from -inf to `t` (by DLMF 8.17.2).

    Args:
        df: degrees of freedom, positive, also inf.
        t: any real number.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where ``|t|`` > 1e100 or df < 1e-100, by series if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in `df` is asked for.

    Example:
        >>> stdtr(torch.tensor(3.0), torch.tensor(1.5))
        tensor(0.8847)
    """


@stdtr.partial("df")
def _(df: Tensor, t: Tensor) -> Any:
    """dF/d df (DLMF 8.17.2 differentiated under the integral; `kernels/student.c`)."""
    return stdtr_by_df(df, t)


@stdtr.partial("t")
def _(df: Tensor, t: Tensor) -> Any:
    """dF/dt, the density (DLMF 8.17.2 differentiated; `kernels/student.c`)."""
    return student_pdf(df, t)


@tg.op(kernel=mended("student.c", "stdtrit", "stdtrit_value(df, p, SCIPYS)", "df p", "__pyx_fuse_0stdtrit"))
@tg.domain(df="positive", p="(0, 1)")
def stdtrit(df: Real[Tensor, "..."], p: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The t for which Student's distribution function is p; derivatives by the implicit function theorem.

    Args:
        df: degrees of freedom, positive, also inf.
        p: between 0 and 1.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives. Next to p = 1/2,
        for p < 1e-20, df < 0.01 or ``|t|`` > 1e20 sqrt(df), by Newton's method if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in `df` is asked for.

    Example:
        >>> stdtrit(torch.tensor(3.0), torch.tensor(0.975))
        tensor(3.1824)
    """


@stdtrit.partial("df")
def _(df: Tensor, p: Tensor, out: Tensor) -> Any:
    """-(dF/d df) / (dF/dt), by the implicit function theorem (`kernels/student.c`)."""
    return stdtrit_by_df(df, out, p)


@stdtrit.partial("p")
def _(df: Tensor, p: Tensor, out: Tensor) -> Any:
    """1 / (dF/dt), by the implicit function theorem (`kernels/student.c`)."""
    return stdtrit_by_p(df, out, p)


@tg.op(kernel=mended("fisher.c", "fdtr", "fdtr_value(dfn, dfd, x, SCIPYS)", "dfn dfd x", "__pyx_fuse_0fdtr"))
@tg.domain(dfn="positive", dfd="positive", x="nonnegative")
def fdtr(dfn: Real[Tensor, "..."], dfd: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The F distribution function, I_w(dfn/2, dfd/2) where w = dfn x / (dfn x + dfd) (by DLMF 8.17.2).

    Args:
        dfn: degrees of freedom of the numerator, positive.
        dfd: degrees of freedom of the denominator, positive.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        By series or quadrature if SciPy's is 0, or has lost digits where dfn x is next to nothing beside dfd, dfd
        beside dfn x, or dfn dfd < 4e-290.

    Raises:
        DerivativeError: a second derivative in degrees of freedom is asked for.

    Example:
        >>> fdtr(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(1.5))
        tensor(0.6464)
    """


@fdtr.partial("dfn")
def _(dfn: Tensor, dfd: Tensor, x: Tensor) -> Any:
    """dF/d dfn (DLMF 8.17.2 differentiated under the integral; `kernels/fisher.c`)."""
    return fdtr_by_dfn(dfn, dfd, x)


@fdtr.partial("dfd")
def _(dfn: Tensor, dfd: Tensor, x: Tensor) -> Any:
    """dF/d dfd (DLMF 8.17.2 differentiated under the integral; `kernels/fisher.c`)."""
    return fdtr_by_dfd(dfn, dfd, x)


@fdtr.partial("x")
def _(dfn: Tensor, dfd: Tensor, x: Tensor) -> Any:
    """dF/dx, the density (DLMF 8.17.2 differentiated; `kernels/fisher.c`)."""
    return fisher_pdf(dfn, dfd, x)


@tg.op(kernel=mended("gamma.c", "chdtr", "chdtr_value(v, x, SCIPYS)", "v x"))
@tg.domain(v="positive", x="nonnegative")
def chdtr(v: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The chi-square distribution function, P(v/2, x/2) (DLMF 8.2.4).

    Args:
        v: degrees of freedom, positive.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x < 0.6 v and v > 200, or v < 2e-6, as `gammainc`.

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> chdtr(torch.tensor(3.0), torch.tensor(2.0))
        tensor(0.4276)
    """


@chdtr.partial("v")
def _(v: Tensor, x: Tensor) -> Any:
    """(dP/da) / 2 at v/2, x/2 (DLMF 8.2.4 and 8.7.1, differentiated in a; `kernels/gamma.c`)."""
    return chdtr_by_v(v, x)


@chdtr.partial("x")
def _(v: Tensor, x: Tensor) -> Any:
    """(dP/dx) / 2 at v/2, x/2 (DLMF 8.8.13; `kernels/gamma.c`)."""
    return chi_pdf(v, x)


@tg.op(kernel=mended("gamma.c", "chdtrc", "chdtrc_value(v, x, SCIPYS)", "v x"))
@tg.domain(v="positive", x="nonnegative")
def chdtrc(v: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The complement of the chi-square distribution function, Q(v/2, x/2) (DLMF 8.2.4).

    Args:
        v: degrees of freedom, positive.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x > 1.4 v and x > 200, as `gammaincc`.

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> chdtrc(torch.tensor(3.0), torch.tensor(2.0))
        tensor(0.5724)
    """


@chdtrc.partial("v")
def _(v: Tensor, x: Tensor) -> Any:
    """-(dP/da) / 2 at v/2, x/2 (DLMF 8.2.5 and 8.7.1, differentiated in a; `kernels/gamma.c`)."""
    return -chdtr_by_v(v, x)


@chdtrc.partial("x")
def _(v: Tensor, x: Tensor) -> Any:
    """-(dP/dx) / 2 at v/2, x/2 (DLMF 8.8.13; `kernels/gamma.c`)."""
    return -chi_pdf(v, x)


@tg.op(kernel=mended("gamma.c", "pdtr", "gammaincc_value(floor(k) + 1, m, SCIPYS)", "k m"))
@tg.domain(k="nonnegative", m="nonnegative")
def pdtr(k: Real[Tensor, "..."], m: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The Poisson distribution function, Q(floor(k) + 1, m) (DLMF 8.4.10).

    Args:
        k: number of events, not negative; what it has behind the point is dropped.
        m: mean, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where m > 1.4 (floor(k) + 1) and m > 100, as `gammaincc`.

    Raises:
        DerivativeError: a derivative in `k` is asked for.

    Example:
        >>> pdtr(torch.tensor(2.0), torch.tensor(1.5))
        tensor(0.8088)
    """


@pdtr.partial("m")
def _(k: Tensor, m: Tensor) -> Any:
    """-dP/dx at floor(k) + 1, m (DLMF 8.8.13; `kernels/gamma.c`)."""
    return -poisson_mass(k, m)


pdtr.nondifferentiable("k", reason=COUNTED)
