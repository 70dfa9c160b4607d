"""Distribution functions of Student's t, F, chi-square and Poisson, differentiable in degrees of freedom too.

Values are SciPy's, but for quantiles t of Student's that have lost digits next to 0 or far out, and for far tails and
tiny parameters. Those of Student's and its derivatives come from `kernels/student.c`
and those of F from `kernels/fisher.c`, which say how; chi-square and Poisson are incomplete gamma functions. Second
derivatives are there but for those in parameters.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .docstrings import LEVEL, SHAPE
from .incomplete_gamma import psi_of
from .sources import ours
from .table import Input, Refused, function, second_of

# -- derivatives of Student's distribution ---------------------------------------------------------------------------


def _fall(df: Tensor, t: Tensor) -> Any:
    """-d log(density) / dt."""
    return (df + 1) * t / (df + t * t)


student_pdf = function(
    "student_pdf", ours("student.c", "student_density(df, t)"), "The derivative dF/dt, the density.",
    df=lambda df, t, out: out * student_score_of(df, t),
    t=lambda df, t, out: -out * _fall(df, t),
)  # fmt: skip

student_score_of = function(
    "student_score_of", ours("student.c", "student_score(df, t)"), "D log(density) in df.",
    df=second_of("stdtr"),
    t=lambda df, t: t * (1 - t * t) / (df + t * t) ** 2,
)  # fmt: skip

stdtr_by_df = function(
    "stdtr_by_df", ours("student.c", "stdtr_dv(df, t)"), "The derivative dF/d df of F.",
    df=second_of("stdtr"),
    t=lambda df, t: student_pdf(df, t) * student_score_of(df, t),
)  # fmt: skip

# As functions of df and t alone, which they are where p = F(t), these do not depend on p: it is there for its digits.
stdtrit_by_df = function(
    "stdtrit_by_df", ours("student.c", "stdtrit_dv(df, t, p)"), "dt/d df at a given p = F(t): -(dF/d df) / density.",
    df=second_of("stdtrit"),
    t=lambda df, t, out: out * _fall(df, t) - student_score_of(df, t),
    p=lambda p: p.new_zeros(()),
)  # fmt: skip

stdtrit_by_p = function(
    "stdtrit_by_p", ours("student.c", "stdtrit_dp(df, t, p)"),
    "dt/dp where p = F(t): 1 / density, without the error of t, which the density multiplies by t^2.",
    df=lambda df, t, out: -out * student_score_of(df, t),
    t=lambda df, t, out: out * _fall(df, t),
    p=lambda p: p.new_zeros(()),
)  # fmt: skip

# -- derivatives of the F distribution -------------------------------------------------------------------------------

fisher_pdf = function(
    "fisher_pdf", ours("fisher.c", "fisher_density(dfn, dfd, x)"), "The derivative dF/dx, the density.",
    dfn=lambda dfn, dfd, x, out: out * fisher_score_n(dfn, dfd, x),
    dfd=lambda dfn, dfd, x, out: out * fisher_score_d(dfn, dfd, x),
    x=lambda dfn, dfd, x, out: -out * (1 + dfn / 2 * dfd * (x - 1) / (dfn * x + dfd)) / x,
)  # fmt: skip

fisher_score_n = function(
    "fisher_score_n", ours("fisher.c", "fisher_score_dfn(dfn, dfd, x)"), "D log(density) in dfn.",
    dfn=second_of("fdtr"), dfd=second_of("fdtr"),
    x=lambda dfn, dfd, x: (dfd / (dfn * x + dfd)) ** 2 * (1 / x - 1) / 2,
)  # fmt: skip

fisher_score_d = function(
    "fisher_score_d", ours("fisher.c", "fisher_score_dfd(dfn, dfd, x)"), "D log(density) in dfd.",
    dfn=second_of("fdtr"), dfd=second_of("fdtr"),
    x=lambda dfn, dfd, x: (dfn / (dfn * x + dfd)) ** 2 * (1 - x) / 2,
)  # fmt: skip

fdtr_by_dfn = function(
    "fdtr_by_dfn", ours("fisher.c", "fdtr_dfn(dfn, dfd, x)"), "The derivative dF/d dfn of F.",
    dfn=second_of("fdtr"), dfd=second_of("fdtr"),
    x=lambda dfn, dfd, x: fisher_pdf(dfn, dfd, x) * fisher_score_n(dfn, dfd, x),
)  # fmt: skip

fdtr_by_dfd = function(
    "fdtr_by_dfd", ours("fisher.c", "fdtr_dfd(dfn, dfd, x)"), "The derivative dF/d dfd of F.",
    dfn=second_of("fdtr"), dfd=second_of("fdtr"),
    x=lambda dfn, dfd, x: fisher_pdf(dfn, dfd, x) * fisher_score_d(dfn, dfd, x),
)  # fmt: skip

# -- derivatives of the chi-square distribution ----------------------------------------------------------------------


def _log_gap(v: Tensor, x: Tensor) -> Any:
    """D log(density) / dv."""
    return ((x / 2).log() - psi_of(v / 2)) / 2


chi_pdf = function(
    "chi_pdf", ours("gamma.c", "chi_density(v, x)"), "The derivative dP/dx, the density.",
    v=lambda v, x, out: out * _log_gap(v, x),
    x=lambda v, x, out: out * ((v / 2 - 1) / x - 0.5),
)  # fmt: skip

chdtr_by_v = function(
    "chdtr_by_v", ours("gamma.c", "chdtr_dv(v, x)"), "The derivative dP/dv of P.",
    v=second_of("chdtr"),
    x=lambda v, x: chi_pdf(v, x) * _log_gap(v, x),
)  # fmt: skip

# -- the Poisson distribution ----------------------------------------------------------------------------------------

COUNTED = Refused("events are counted: the function is constant between integers")


def _gain(k: Tensor, m: Tensor, out: Tensor) -> Any:
    """The mass of one event less, of which there is none less than 0, minus the mass: also at m = 0."""
    return torch.where(k < 1, -out, poisson_mass(k.clamp(min=1) - 1, m) - out)


poisson_mass = function(
    "poisson_mass", ours("gamma.c", "density_of_gamma(floor(k) + 1, m)"),
    "The probability of floor(k) events. An operator of k, so that what rests on it has no derivative in k either.",
    k=COUNTED, m=_gain,
)  # fmt: skip

# -- functions ------------------------------------------------------------------------------------------------------

FREEDOM = "degrees of freedom, positive, also inf."

stdtr = function(
    "stdtr", ours("student.c", "stdtr_value(df, t, SCIPY(stdtr))"),
    "Student's distribution function, the integral of the density from -inf to `t` (by DLMF 8.17.2).",
    df=Input(
        FREEDOM, "positive", lambda df, t: stdtr_by_df(df, t),
        "dF/d df (DLMF 8.17.2 differentiated under the integral; `kernels/student.c`).",
    ),
    t=Input(
        "any real number.", "real", lambda df, t: student_pdf(df, t),
        "dF/dt, the density (DLMF 8.17.2 differentiated; `kernels/student.c`).",
    ),
    returns=f"{LEVEL} Where ``|t|`` > 1e100 or df < 1e-100, by series if SciPy's has lost digits.",
    raises="a second derivative in `df`", cuda_by_c=ours("student.c", "stdtr_alone(df, t)"),
    example=("stdtr(torch.tensor(3.0), torch.tensor(1.5))", "tensor(0.8847)"),
)  # fmt: skip

stdtrit = function(
    "stdtrit", ours("student.c", "stdtrit_value(df, p, SCIPY(stdtrit))"),
    "The t for which Student's distribution function is p; derivatives by the implicit function theorem.",
    df=Input(
        FREEDOM, "positive", lambda df, p, out: stdtrit_by_df(df, out, p),
        "-(dF/d df) / (dF/dt), by the implicit function theorem (`kernels/student.c`).",
    ),
    p=Input(
        "between 0 and 1.", "(0, 1)", lambda df, p, out: stdtrit_by_p(df, out, p),
        "1 / (dF/dt), by the implicit function theorem (`kernels/student.c`).",
    ),
    returns=f"{SHAPE}; -inf where p is 0; outside of the domain what SciPy gives. Next to p = 1/2, for p < 1e-20, "
    "df < 0.01 or ``|t|`` > 1e20 sqrt(df), by Newton's method if SciPy's has lost digits.",
    raises="a second derivative in `df`", cuda_by_c=ours("student.c", "stdtrit_alone(df, p)"),
    example=("stdtrit(torch.tensor(3.0), torch.tensor(0.975))", "tensor(3.1824)"),
)  # fmt: skip

fdtr = function(
    "fdtr", ours("fisher.c", "fdtr_value(dfn, dfd, x, SCIPY(fdtr))"),
    "The F distribution function, I_w(dfn/2, dfd/2) where w = dfn x / (dfn x + dfd) (by DLMF 8.17.2).",
    dfn=Input(
        "degrees of freedom of the numerator, positive.", "positive", lambda dfn, dfd, x: fdtr_by_dfn(dfn, dfd, x),
        "dF/d dfn (DLMF 8.17.2 differentiated under the integral; `kernels/fisher.c`).",
    ),
    dfd=Input(
        "degrees of freedom of the denominator, positive.", "positive", lambda dfn, dfd, x: fdtr_by_dfd(dfn, dfd, x),
        "dF/d dfd (DLMF 8.17.2 differentiated under the integral; `kernels/fisher.c`).",
    ),
    x=Input(
        "argument, not negative.", "nonnegative", lambda dfn, dfd, x: fisher_pdf(dfn, dfd, x),
        "dF/dx, the density (DLMF 8.17.2 differentiated; `kernels/fisher.c`).",
    ),
    returns=f"{LEVEL} By series or quadrature if SciPy's is 0, or has lost digits where dfn x is next to nothing "
    "beside dfd, dfd beside dfn x, or dfn dfd < 4e-290.",
    raises="a second derivative in degrees of freedom",
    example=("fdtr(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(1.5))", "tensor(0.6464)"),
)  # fmt: skip

chdtr = function(
    "chdtr", ours("gamma.c", "chdtr_value(v, x, SCIPY(chdtr))"),
    "The chi-square distribution function, P(v/2, x/2) (DLMF 8.2.4).",
    v=Input(
        "degrees of freedom, positive.", "positive", lambda v, x: chdtr_by_v(v, x),
        "(dP/da) / 2 at v/2, x/2 (DLMF 8.2.4 and 8.7.1, differentiated in a; `kernels/gamma.c`).",
    ),
    x=Input(
        "argument, not negative.", "nonnegative", lambda v, x: chi_pdf(v, x),
        "(dP/dx) / 2 at v/2, x/2 (DLMF 8.8.13; `kernels/gamma.c`).",
    ),
    returns=f"{LEVEL} Where x < 0.6 v and v > 200, v > 6e4, or v < 2e-6, as `gammainc`.",
    raises="a second derivative in `v`", cuda_by_c=ours("gamma.c", "chdtr_alone(v, x)"),
    example=("chdtr(torch.tensor(3.0), torch.tensor(2.0))", "tensor(0.4276)"),
)  # fmt: skip

chdtrc = function(
    "chdtrc", ours("gamma.c", "chdtrc_value(v, x, SCIPY(chdtrc))"),
    "The complement of the chi-square distribution function, Q(v/2, x/2) (DLMF 8.2.4).",
    v=Input(
        "degrees of freedom, positive.", "positive", lambda v, x: -chdtr_by_v(v, x),
        "-(dP/da) / 2 at v/2, x/2 (DLMF 8.2.5 and 8.7.1, differentiated in a; `kernels/gamma.c`).",
    ),
    x=Input(
        "argument, not negative.", "nonnegative", lambda v, x: -chi_pdf(v, x),
        "-(dP/dx) / 2 at v/2, x/2 (DLMF 8.8.13; `kernels/gamma.c`).",
    ),
    returns=f"{LEVEL} Where x > 1.4 v and x > 200, or v > 6e4, as `gammaincc`.",
    raises="a second derivative in `v`", cuda_by_c=ours("gamma.c", "chdtrc_alone(v, x)"),
    example=("chdtrc(torch.tensor(3.0), torch.tensor(2.0))", "tensor(0.5724)"),
)  # fmt: skip

pdtr = function(
    "pdtr", ours("gamma.c", "gammaincc_value(floor(k) + 1, m, SCIPY(pdtr))"),
    "The Poisson distribution function, Q(floor(k) + 1, m) (DLMF 8.4.10).",
    k=Input("number of events, not negative; what it has behind the point is dropped.", "nonnegative", COUNTED),
    m=Input(
        "mean, not negative.", "nonnegative", lambda k, m: -poisson_mass(k, m),
        "-dP/dx at floor(k) + 1, m (DLMF 8.8.13; `kernels/gamma.c`).",
    ),
    returns=f"{LEVEL} Where m > 1.4 (floor(k) + 1) and m > 100, or k > 3e4, as `gammaincc`.",
    raises="a derivative in `k`", cuda_by_c=ours("gamma.c", "k < 0 ? NAN : gammaincc_alone(floor(k) + 1, m)"),
    example=("pdtr(torch.tensor(2.0), torch.tensor(1.5))", "tensor(0.8088)"),
)  # fmt: skip
