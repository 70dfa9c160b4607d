"""Functions of `scipy.special`, under its names."""

# Written by `python -m tests.typing.stubs`.

from typing import overload

from torch import Tensor

from ..._op import Op

class _Airy(Op[..., tuple[Tensor, Tensor, Tensor, Tensor]]):
    """The Airy functions Ai and Bi and their derivatives (DLMF 9.2).

    Args:
        z: any real number.

    Returns:
        Ai(z), Ai'(z), Bi(z) and Bi'(z), each in the shape of the argument; NaN below -1e18 (on CUDA, -1e12), where the
        phase is not known.

    Example:
        >>> airy(torch.tensor(1.0))
        (tensor(0.1353), tensor(-0.1591), tensor(1.2074), tensor(0.9324))
    """

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...

airy: _Airy

class _Iv(Op[..., Tensor]):
    """The modified Bessel function of the first kind I_v(z) (DLMF 10.25.2).

    Args:
        v: order, any real number.
        z: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. For z < 0, where I is
        real at integer orders alone, there is no derivative in `v` (NaN).

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> iv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(2.0462)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

iv: _Iv

class _Ive(Op[..., Tensor]):
    """The scaled modified Bessel function exp(-abs(z)) I_v(z) (DLMF 10.25.2).

    Args:
        v: order, any real number.
        z: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. For z < 0, where I is
        real at integer orders alone, there is no derivative in `v` (NaN). At 0 the derivative of even orders is 0, the
        mean of both sides.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> ive(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.2769)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

ive: _Ive

class _Jv(Op[..., Tensor]):
    """The Bessel function of the first kind J_v(z) (DLMF 10.2.2).

    Args:
        v: order, any real number.
        z: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. For z < 0, where J is
        real at integer orders alone, there is no derivative in `v` (NaN).

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> jv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.5130)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

jv: _Jv

class _Jve(Op[..., Tensor]):
    """The scaled Bessel function of the first kind, of real argument `jv` itself (DLMF 10.2.2).

    Args:
        v: order, any real number.
        z: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. For z < 0, where J is
        real at integer orders alone, there is no derivative in `v` (NaN).

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> jve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.5130)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

jve: _Jve

class _Kv(Op[..., Tensor]):
    """The modified Bessel function of the second kind K_v(z) (DLMF 10.27.4).

    Args:
        v: order, any real number.
        z: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> kv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.1199)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

kv: _Kv

class _Kve(Op[..., Tensor]):
    """The scaled modified Bessel function exp(z) K_v(z) (DLMF 10.27.4).

    Args:
        v: order, any real number.
        z: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> kve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.8862)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

kve: _Kve

class _Yv(Op[..., Tensor]):
    """The Bessel function of the second kind Y_v(z) (DLMF 10.2.3).

    Args:
        v: order, any real number.
        z: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> yv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.2348)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

yv: _Yv

class _Yve(Op[..., Tensor]):
    """The scaled Bessel function of the second kind, of real argument `yv` itself (DLMF 10.2.3).

    Args:
        v: order, any real number.
        z: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> yve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.2348)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

yve: _Yve

class _Chdtr(Op[..., Tensor]):
    """The chi-square distribution function, P(v/2, x/2) (DLMF 8.2.4).

    Args:
        v: degrees of freedom, positive.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x < 0.6 v and v > 200, v > 6e4, or v < 2e-6, as `gammainc`.

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> chdtr(torch.tensor(3.0), torch.tensor(2.0))
        tensor(0.4276)
    """

    @overload
    def __call__(self, v: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, x: Tensor) -> Tensor: ...

chdtr: _Chdtr

class _Chdtrc(Op[..., Tensor]):
    """The complement of the chi-square distribution function, Q(v/2, x/2) (DLMF 8.2.4).

    Args:
        v: degrees of freedom, positive.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x > 1.4 v and x > 200, or v > 6e4, as `gammaincc`.

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> chdtrc(torch.tensor(3.0), torch.tensor(2.0))
        tensor(0.5724)
    """

    @overload
    def __call__(self, v: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, x: Tensor) -> Tensor: ...

chdtrc: _Chdtrc

class _Fdtr(Op[..., Tensor]):
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

    @overload
    def __call__(self, dfn: Tensor, dfd: Tensor | float, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, dfn: Tensor | float, dfd: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, dfn: Tensor | float, dfd: Tensor | float, x: Tensor) -> Tensor: ...

fdtr: _Fdtr

class _Pdtr(Op[..., Tensor]):
    """The Poisson distribution function, Q(floor(k) + 1, m) (DLMF 8.4.10).

    Args:
        k: number of events, not negative; what it has behind the point is dropped.
        m: mean, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where m > 1.4 (floor(k) + 1) and m > 100, or k > 3e4, as `gammaincc`.

    Raises:
        DerivativeError: a derivative in `k` is asked for.

    Example:
        >>> pdtr(torch.tensor(2.0), torch.tensor(1.5))
        tensor(0.8088)
    """

    @overload
    def __call__(self, k: Tensor, m: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, k: Tensor | float, m: Tensor) -> Tensor: ...

pdtr: _Pdtr

class _Stdtr(Op[..., Tensor]):
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

    @overload
    def __call__(self, df: Tensor, t: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, df: Tensor | float, t: Tensor) -> Tensor: ...

stdtr: _Stdtr

class _Stdtrit(Op[..., Tensor]):
    """The t for which Student's distribution function is p; derivatives by the implicit function theorem.

    Args:
        df: degrees of freedom, positive, also inf.
        p: between 0 and 1.

    Returns:
        In the shape to which the arguments broadcast; -inf where p is 0; outside of the domain what SciPy gives. Next
        to p = 1/2, for p < 1e-20, df < 0.01 or ``|t|`` > 1e20 sqrt(df), by Newton's method if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in `df` is asked for.

    Example:
        >>> stdtrit(torch.tensor(3.0), torch.tensor(0.975))
        tensor(3.1824)
    """

    @overload
    def __call__(self, df: Tensor, p: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, df: Tensor | float, p: Tensor) -> Tensor: ...

stdtrit: _Stdtrit

class _Ellipe(Op[..., Tensor]):
    """The complete elliptic integral of the second kind E(m) (DLMF 19.2.8, m = k^2; derivative 19.4.2).

    Args:
        m: parameter, at most 1.

    Returns:
        In the shape of the parameter; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a third derivative is asked for.

    Example:
        >>> ellipe(torch.tensor(0.5))
        tensor(1.3506)
    """

    def __call__(self, m: Tensor) -> Tensor: ...

ellipe: _Ellipe

class _Ellipk(Op[..., Tensor]):
    """The complete elliptic integral of the first kind K(m) (DLMF 19.2.8, m = k^2; derivative 19.4.1).

    Args:
        m: parameter, at most 1. Next to 1, `ellipkm1` has more digits.

    Returns:
        In the shape of the parameter; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a third derivative is asked for.

    Example:
        >>> ellipk(torch.tensor(0.5))
        tensor(1.8541)
    """

    def __call__(self, m: Tensor) -> Tensor: ...

ellipk: _Ellipk

class _Ellipkm1(Op[..., Tensor]):
    """The complete elliptic integral of the first kind K(1 - p) (DLMF 19.2.8; derivative 19.4.1).

    Args:
        p: complement of the parameter, not negative.

    Returns:
        In the shape of the argument; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a third derivative is asked for.

    Example:
        >>> ellipkm1(torch.tensor(1e-8))
        tensor(10.5966)
    """

    def __call__(self, p: Tensor) -> Tensor: ...

ellipkm1: _Ellipkm1

class _Zeta(Op[..., Tensor]):
    """Hurwitz' zeta function, the sum of (q + k)^-x over k = 0, 1, ... (DLMF 25.11.1; derivative 25.11.17).

    Args:
        x: exponent, at least 1; any real number where there is no `q`.
        q: positive, or negative where `x` is an integer; without it the function is Riemann's, whose q is 1.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a third derivative in `x` is asked for.

    Example:
        >>> zeta(torch.tensor(2.0)), zeta(2.0, torch.tensor(0.5))
        (tensor(1.6449), tensor(4.9348))
    """

    @overload
    def __call__(self, x: Tensor, q: Tensor | float | None = None) -> Tensor: ...
    @overload
    def __call__(self, x: Tensor | float, q: Tensor) -> Tensor: ...

zeta: _Zeta

class _Hyp0F1(Op[..., Tensor]):
    """The confluent hypergeometric limit function 0F1(; v; z) (DLMF 16.2.1; derivative 16.3.1).

    Values are SciPy's, and ours where it has nothing finite, or may have nothing right: abs(z) > 1e4, abs(v) > 1000,
    z < 0 and v > 150, v < -165 or abs(v - 1) log(-z) > 1300, and v < 0 next to an integer. They are NaN where neither
    is right, as may be for v < -300 and z < -2e5, and for z < -1e39, where nobody knows the phase.

    Args:
        v: parameter, any real number but 0, -1, -2, ...
        z: argument, any real number.

    Returns:
        In the shape to which the arguments broadcast.

    Raises:
        DerivativeError: a derivative in `v` is asked for.

    Example:
        >>> hyp0f1(2.5, torch.tensor(1.0))
        tensor(1.4616)
    """

    @overload
    def __call__(self, v: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, z: Tensor) -> Tensor: ...

hyp0f1: _Hyp0F1

class _Hyp1F1(Op[..., Tensor]):
    """Kummer's confluent hypergeometric function 1F1(a; b; x) (DLMF 13.2.2; derivative 13.3.16).

    Values are SciPy's, and ours where these are wrong or may be: for -3 < x < 0 unless a < b, for b < 0 unless both
    parameters are of moderate size, and where a, b or b - a is next to an integer. They are NaN where that would take
    too long, as may be for ``|x|`` > 1000 there. SciPy's, which does not return at many points with parameters or
    arguments above 1e4 or below 1e-250, is not called with these.

    Args:
        a: parameter, any real number.
        b: parameter, any real number but 0, -1, -2, ...
        x: argument, any real number.

    Returns:
        In the shape to which the arguments broadcast.

    Raises:
        DerivativeError: a derivative in `a` or `b` is asked for.

    Example:
        >>> hyp1f1(0.5, 2.5, torch.tensor(1.0))
        tensor(1.2523)
    """

    @overload
    def __call__(self, a: Tensor, b: Tensor | float, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor | float, x: Tensor) -> Tensor: ...

hyp1f1: _Hyp1F1

class _Hyp2F1(Op[..., Tensor]):
    """Gauss' hypergeometric function 2F1(a, b; c; z) (DLMF 15.2.1; derivative 15.5.1).

    Values are SciPy's for a and b from -6 to 6, c > 0.1 and z from -2 to 0.9, unless one of them is next to an integer
    or to 0. Elsewhere SciPy's has few right digits or none at many points, and values are ours, which take some 20
    microseconds, and up to milliseconds where large terms cancel. Values and derivatives are NaN where that would take
    too long, as may be with parameters above 1000.

    Args:
        a: parameter, any real number.
        b: parameter, any real number.
        c: parameter, any real number but 0, -1, -2, ...
        z: argument, below 1.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives.

    Raises:
        DerivativeError: a derivative in `a`, `b` or `c` is asked for.

    Example:
        >>> hyp2f1(0.5, 1.5, 2.5, torch.tensor(0.5))
        tensor(1.2108)
    """

    @overload
    def __call__(self, a: Tensor, b: Tensor | float, c: Tensor | float, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor, c: Tensor | float, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor | float, c: Tensor, z: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor | float, c: Tensor | float, z: Tensor) -> Tensor: ...

hyp2f1: _Hyp2F1

class _Betainc(Op[..., Tensor]):
    """The regularised incomplete beta function I_x(a, b) (DLMF 8.17.2).

    Args:
        a: positive parameter.
        b: positive parameter.
        x: from 0 to 1.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where a b < 1e-290, by series or quadrature if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in a parameter is asked for.

    Example:
        >>> betainc(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.4))
        tensor(0.5248)
    """

    @overload
    def __call__(self, a: Tensor, b: Tensor | float, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor | float, x: Tensor) -> Tensor: ...

betainc: _Betainc

class _Betaincc(Op[..., Tensor]):
    """The complement 1 - I_x(a, b) of the regularised incomplete beta function (DLMF 8.17.4).

    Args:
        a: positive parameter.
        b: positive parameter.
        x: from 0 to 1.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x < 1e-8, of which SciPy's has lost 1 - x, by the function itself; where a b < 1e-290, as `betainc`.

    Raises:
        DerivativeError: a second derivative in a parameter is asked for.

    Example:
        >>> betaincc(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.4))
        tensor(0.4752)
    """

    @overload
    def __call__(self, a: Tensor, b: Tensor | float, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor | float, x: Tensor) -> Tensor: ...

betaincc: _Betaincc

class _Betainccinv(Op[..., Tensor]):
    """The x for which 1 - I_x(a, b) is y; derivatives by the implicit function theorem.

    Args:
        a: positive parameter.
        b: positive parameter.
        y: between 0 and 1.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        By Newton's method where SciPy's is NaN within it or below the least normal number, or has lost digits for a y
        below 1e-50.

    Raises:
        DerivativeError: a second derivative in a parameter is asked for.

    Example:
        >>> betainccinv(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.5))
        tensor(0.3857)
    """

    @overload
    def __call__(self, a: Tensor, b: Tensor | float, y: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor, y: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor | float, y: Tensor) -> Tensor: ...

betainccinv: _Betainccinv

class _Betaincinv(Op[..., Tensor]):
    """The x for which I_x(a, b) is y; derivatives by the implicit function theorem.

    Args:
        a: positive parameter.
        b: positive parameter.
        y: between 0 and 1.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        By Newton's method where SciPy's is NaN within it or below the least normal number, or has lost digits for a y
        below 1e-50.

    Raises:
        DerivativeError: a second derivative in a parameter is asked for.

    Example:
        >>> betaincinv(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.5))
        tensor(0.3857)
    """

    @overload
    def __call__(self, a: Tensor, b: Tensor | float, y: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor, y: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor | float, y: Tensor) -> Tensor: ...

betaincinv: _Betaincinv

class _Gammainc(Op[..., Tensor]):
    """The regularised lower incomplete gamma function P(a, x) (DLMF 8.2.4).

    Args:
        a: positive parameter.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x < 0.6 a and a > 100, or a > 3e4, by quadrature if SciPy's has lost digits; where a < 1e-6 and x < 1.1,
        by series.

    Raises:
        DerivativeError: a second derivative in `a` is asked for.

    Example:
        >>> gammainc(torch.tensor(2.5), torch.tensor(1.3))
        tensor(0.2386)
    """

    @overload
    def __call__(self, a: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, x: Tensor) -> Tensor: ...

gammainc: _Gammainc

class _Gammaincc(Op[..., Tensor]):
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x) (DLMF 8.2.4).

    Args:
        a: positive parameter.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x > 1.4 a and x > 100, or a > 3e4, by quadrature if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in `a` is asked for.

    Example:
        >>> gammaincc(torch.tensor(2.5), torch.tensor(1.3))
        tensor(0.7614)
    """

    @overload
    def __call__(self, a: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, x: Tensor) -> Tensor: ...

gammaincc: _Gammaincc

class _Gammainccinv(Op[..., Tensor]):
    """The x for which Q(a, x) is y; derivatives by the implicit function theorem.

    Args:
        a: positive parameter.
        y: between 0 and 1.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. Where a > 3e4, by
        Newton's method if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in `a` is asked for.

    Example:
        >>> gammainccinv(torch.tensor(2.5), torch.tensor(0.5))
        tensor(2.1757)
    """

    @overload
    def __call__(self, a: Tensor, y: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, y: Tensor) -> Tensor: ...

gammainccinv: _Gammainccinv

class _Gammaincinv(Op[..., Tensor]):
    """The x for which P(a, x) is y; derivatives by the implicit function theorem.

    Args:
        a: positive parameter.
        y: between 0 and 1.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. Where a > 3e4, by
        Newton's method if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in `a` is asked for.

    Example:
        >>> gammaincinv(torch.tensor(2.5), torch.tensor(0.5))
        tensor(2.1757)
    """

    @overload
    def __call__(self, a: Tensor, y: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, y: Tensor) -> Tensor: ...

gammaincinv: _Gammaincinv

class _Dawsn(Op[..., Tensor]):
    """Dawson's integral F(x) (DLMF 7.2.5).

    Args:
        x: argument, any real number.

    Returns:
        In the shape of the argument.

    Example:
        >>> dawsn(torch.tensor(1.0))
        tensor(0.5381)
    """

    def __call__(self, x: Tensor) -> Tensor: ...

dawsn: _Dawsn

class _Erfcx(Op[..., Tensor]):
    """The scaled complementary error function exp(x^2) erfc(x) (DLMF 7.2.2).

    Args:
        x: argument, any real number.

    Returns:
        In the shape of the argument.

    Example:
        >>> erfcx(torch.tensor(1.0))
        tensor(0.4276)
    """

    def __call__(self, x: Tensor) -> Tensor: ...

erfcx: _Erfcx

class _Erfi(Op[..., Tensor]):
    """The imaginary error function -i erf(iz) (DLMF 7.2.1).

    Args:
        z: argument, any real number.

    Returns:
        In the shape of the argument.

    Example:
        >>> erfi(torch.tensor(1.0))
        tensor(1.6504)
    """

    def __call__(self, z: Tensor) -> Tensor: ...

erfi: _Erfi

class _Exp1(Op[..., Tensor]):
    """The exponential integral E_1(z) (DLMF 6.2.1).

    Args:
        z: positive argument.

    Returns:
        In the shape of the argument; NaN outside of the domain, as in SciPy.

    Example:
        >>> exp1(torch.tensor(1.0))
        tensor(0.2194)
    """

    def __call__(self, z: Tensor) -> Tensor: ...

exp1: _Exp1

class _Expi(Op[..., Tensor]):
    """The exponential integral Ei(x), a principal value where x > 0 (DLMF 6.2.5, 6.2.6).

    Args:
        x: argument other than 0, where the value is -inf.

    Returns:
        In the shape of the argument.

    Example:
        >>> expi(torch.tensor(1.0))
        tensor(1.8951)
    """

    def __call__(self, x: Tensor) -> Tensor: ...

expi: _Expi

class _Expn(Op[..., Tensor]):
    """The generalised exponential integral E_n(x) (DLMF 8.19.3; derivative 8.19.13).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        x: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives, without a gradient (NaN).

    Raises:
        DerivativeError: a derivative in `n` is asked for.

    Example:
        >>> expn(2, torch.tensor(1.0))
        tensor(0.1485)
    """

    @overload
    def __call__(self, n: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, n: Tensor | float, x: Tensor) -> Tensor: ...

expn: _Expn

class _Fresnel(Op[..., tuple[Tensor, Tensor]]):
    """The Fresnel integrals S(z) and C(z), in this order (DLMF 7.2.8, 7.2.7).

    Args:
        z: argument, any real number.

    Returns:
        The two, each in the shape of the argument.

    Example:
        >>> fresnel(torch.tensor(1.0))
        (tensor(0.4383), tensor(0.7799))
    """

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]: ...

fresnel: _Fresnel

class _Shichi(Op[..., tuple[Tensor, Tensor]]):
    """The hyperbolic sine and cosine integrals Shi(x) and Chi(abs(x)) (DLMF 6.2.15, 6.2.16).

    Args:
        x: argument, any real number.

    Returns:
        The two, each in the shape of the argument.

    Example:
        >>> shichi(torch.tensor(1.0))
        (tensor(1.0573), tensor(0.8379))
    """

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]: ...

shichi: _Shichi

class _Sici(Op[..., tuple[Tensor, Tensor]]):
    """The sine and cosine integrals Si(x) and Ci(abs(x)) (DLMF 6.2.9, 6.2.13).

    Args:
        x: argument, any real number.

    Returns:
        The two, each in the shape of the argument.

    Example:
        >>> sici(torch.tensor(1.0))
        (tensor(0.9461), tensor(0.3374))
    """

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]: ...

sici: _Sici

class _Spence(Op[..., Tensor]):
    """Spence's function, the dilogarithm Li_2(1 - z) (DLMF 25.12.1).

    Args:
        z: argument, not negative.

    Returns:
        In the shape of the argument; NaN outside of the domain, as in SciPy.

    Example:
        >>> spence(torch.tensor(0.5))
        tensor(0.5822)
    """

    def __call__(self, z: Tensor) -> Tensor: ...

spence: _Spence

class _Lambertw(Op[..., Tensor]):
    """The real branches of Lambert's W, the inverse of w exp(w) (DLMF 4.13.1; derivative 4.13.4).

    Args:
        z: argument, at least -1/e; on the branch -1 also at most 0. The double ``-exp(-1)`` stands for -1/e.
        k: the branch: 0, which has w >= -1, or -1, which has w <= -1.
        tol: of SciPy's iteration; it has no effect, as all digits are right.

    Returns:
        Real numbers, in the shape of the argument; NaN where the branch is not real. SciPy returns complex ones.

    Example:
        >>> lambertw(torch.tensor([1.0, -0.2]))
        tensor([ 0.5671, -0.2592])
    """

    def __call__(self, z: Tensor, k: int = 0, tol: float = 1e-08) -> Tensor: ...

lambertw: _Lambertw

class _Betaln(Op[..., Tensor]):
    """The logarithm of the absolute value of the beta function (DLMF 5.12.1).

    Args:
        a: a positive number; negative ones as in SciPy.
        b: likewise.

    Returns:
        In the shape to which the arguments broadcast. By Stirling's formula (DLMF 5.11.1) where a + b > 171, but where
        one is 1e6 times the other, and where one is next to 0; next to the zero at (1, 1) by a series (DLMF 5.7.3).

    Example:
        >>> betaln(torch.tensor(2.0), torch.tensor(3.0))
        tensor(-2.4849)
    """

    @overload
    def __call__(self, a: Tensor, b: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor | float, b: Tensor) -> Tensor: ...

betaln: _Betaln

class _Digamma(Op[..., Tensor]):
    """The digamma function (DLMF 5.2.2).

    Args:
        z: any real number; at 0 the value is an infinity, at -1, -2, ... NaN.

    Returns:
        In the shape of `z`.

    Example:
        >>> digamma(torch.tensor([1.0, 10.0]))
        tensor([-0.5772,  2.2518])
    """

    def __call__(self, z: Tensor) -> Tensor: ...

digamma: _Digamma

class _Gammaln(Op[..., Tensor]):
    """The logarithm of the absolute value of the gamma function (DLMF 5.2.1; derivative 5.2.2).

    Args:
        x: any real number; at 0, -1, -2, ... the value is inf.

    Returns:
        In the shape of `x`. The derivative is NaN at the poles, but for 0, where it is that of the side of its sign.

    Example:
        >>> gammaln(torch.tensor([0.5, 10.0]))
        tensor([ 0.5724, 12.8018])
    """

    def __call__(self, x: Tensor) -> Tensor: ...

gammaln: _Gammaln

class _Polygamma(Op[..., Tensor]):
    """The n-th derivative of the digamma function (DLMF 5.15; by Hurwitz's function, 25.11.12).

    Args:
        n: order, an integer that is not negative.
        x: any real number; at 0, -1, -2, ... the value is inf or -inf.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is no order.

    Raises:
        DerivativeError: a derivative in `n` is asked for.

    Example:
        >>> polygamma(1, torch.tensor([2.0, 3.0, 25.5]))
        tensor([0.6449, 0.3949, 0.0400])
    """

    @overload
    def __call__(self, n: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, n: Tensor | float, x: Tensor) -> Tensor: ...

polygamma: _Polygamma

class _Boxcox(Op[..., Tensor]):
    """The power transform (x^lmbda - 1) / lmbda, and log(x) where lmbda is 0 (Box and Cox 1964).

    Args:
        x: a number that is not negative.
        lmbda: the power, any real number.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Example:
        >>> boxcox(torch.tensor(2.0), torch.tensor([0.0, 0.5]))
        tensor([0.6931, 0.8284])
    """

    @overload
    def __call__(self, x: Tensor, lmbda: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, x: Tensor | float, lmbda: Tensor) -> Tensor: ...

boxcox: _Boxcox

class _InvBoxcox(Op[..., Tensor]):
    """The inverse of the power transform, (1 + lmbda y)^(1/lmbda), and exp(y) where lmbda is 0.

    Args:
        y: a number for which 1 + lmbda y is not negative.
        lmbda: the power, any real number.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `lmbda` is asked for.

    Example:
        >>> inv_boxcox(torch.tensor(2.0), torch.tensor([0.0, 0.5]))
        tensor([7.3891, 4.0000])
    """

    @overload
    def __call__(self, y: Tensor, lmbda: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, y: Tensor | float, lmbda: Tensor) -> Tensor: ...

inv_boxcox: _InvBoxcox

class _Xlog1Py(Op[..., Tensor]):
    """The product x log(1 + y), and 0 where x is 0.

    Args:
        x: any real number.
        y: a number above -1; where `x` is 0, any.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Example:
        >>> xlog1py(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 3.0]))
        tensor([0.0000, 2.7726])
    """

    @overload
    def __call__(self, x: Tensor, y: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, x: Tensor | float, y: Tensor) -> Tensor: ...

xlog1py: _Xlog1Py

class _Xlogy(Op[..., Tensor]):
    """The product x log(y), and 0 where x is 0.

    Args:
        x: any real number.
        y: a positive number; where `x` is 0, any.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Example:
        >>> xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0]))
        tensor([0.0000, 2.1972])
    """

    @overload
    def __call__(self, x: Tensor, y: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, x: Tensor | float, y: Tensor) -> Tensor: ...

xlogy: _Xlogy

class _LogNdtr(Op[..., Tensor]):
    """The logarithm of the normal distribution function (DLMF 7.2.2; far out by 7.9.3).

    Args:
        x: any real number.

    Returns:
        In the shape of `x`.

    Example:
        >>> log_ndtr(torch.tensor([-10.0, 0.0]))
        tensor([-53.2313,  -0.6931])
    """

    def __call__(self, x: Tensor) -> Tensor: ...

log_ndtr: _LogNdtr

class _Ndtri(Op[..., Tensor]):
    """The x at which the normal distribution function is y; derivatives by the implicit function theorem.

    Args:
        y: between 0 and 1.

    Returns:
        In the shape of `y`; -inf at 0, inf at 1, NaN outside of the domain, as in SciPy.

    Example:
        >>> ndtri(torch.tensor(0.975))
        tensor(1.9600)
    """

    def __call__(self, y: Tensor) -> Tensor: ...

ndtri: _Ndtri

class _OwensT(Op[..., Tensor]):
    """Owen's T function, P(X > h and 0 < Y < aX) of standard normal X and Y (Owen 1956).

    Args:
        h: any real number.
        a: any real number.

    Returns:
        In the shape to which the arguments broadcast. Where abs(h) > 4 and abs(a) < 0.01 the value is ours: there
        SciPy's has lost some 1e-15 / abs(a) of it.

    Raises:
        DerivativeError: a third derivative is asked for.

    Example:
        >>> owens_t(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.1416)
    """

    @overload
    def __call__(self, h: Tensor, a: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, h: Tensor | float, a: Tensor) -> Tensor: ...

owens_t: _OwensT

class _SphericalIn(Op[..., Tensor]):
    """The modified spherical Bessel function of the first kind i_n(z) (DLMF 10.47.7; derivative 10.51.5).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        z: any real number.
        derivative: whether to give the derivative instead, which is differentiable as well.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is negative, as in SciPy.

    Raises:
        DerivativeError: a derivative in `n`, or one of an order above three in `z`, is asked for.

    Example:
        >>> spherical_in(2, torch.tensor(2.0))
        tensor(0.3519)
    """

    @overload
    def __call__(self, n: Tensor, z: Tensor | float, derivative: bool = False) -> Tensor: ...
    @overload
    def __call__(self, n: Tensor | float, z: Tensor, derivative: bool = False) -> Tensor: ...

spherical_in: _SphericalIn

class _SphericalJn(Op[..., Tensor]):
    """The spherical Bessel function of the first kind j_n(z) (DLMF 10.47.3; derivative 10.51.2).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        z: any real number.
        derivative: whether to give the derivative instead, which is differentiable as well.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is negative, as in SciPy.

    Raises:
        DerivativeError: a derivative in `n`, or one of an order above three in `z`, is asked for.

    Example:
        >>> spherical_jn(2, torch.tensor(2.0))
        tensor(0.1984)
    """

    @overload
    def __call__(self, n: Tensor, z: Tensor | float, derivative: bool = False) -> Tensor: ...
    @overload
    def __call__(self, n: Tensor | float, z: Tensor, derivative: bool = False) -> Tensor: ...

spherical_jn: _SphericalJn

class _SphericalKn(Op[..., Tensor]):
    """The modified spherical Bessel function of the second kind k_n(z) (DLMF 10.47.9; derivative 10.51.5).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        z: any real number; at 0 the function is taken from the right.
        derivative: whether to give the derivative instead, which is differentiable as well.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is negative, as in SciPy.

    Raises:
        DerivativeError: a derivative in `n`, or one of an order above three in `z`, is asked for.

    Example:
        >>> spherical_kn(2, torch.tensor(2.0))
        tensor(0.3454)
    """

    @overload
    def __call__(self, n: Tensor, z: Tensor | float, derivative: bool = False) -> Tensor: ...
    @overload
    def __call__(self, n: Tensor | float, z: Tensor, derivative: bool = False) -> Tensor: ...

spherical_kn: _SphericalKn

class _SphericalYn(Op[..., Tensor]):
    """The spherical Bessel function of the second kind y_n(z) (DLMF 10.47.4; derivative 10.51.2).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        z: any real number; at 0 the function is taken from the right.
        derivative: whether to give the derivative instead, which is differentiable as well.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is negative, as in SciPy.

    Raises:
        DerivativeError: a derivative in `n`, or one of an order above three in `z`, is asked for.

    Example:
        >>> spherical_yn(2, torch.tensor(2.0))
        tensor(-0.7340)
    """

    @overload
    def __call__(self, n: Tensor, z: Tensor | float, derivative: bool = False) -> Tensor: ...
    @overload
    def __call__(self, n: Tensor | float, z: Tensor, derivative: bool = False) -> Tensor: ...

spherical_yn: _SphericalYn

class _Struve(Op[..., Tensor]):
    """The Struve function H_v(x) (DLMF 11.2.1).

    Args:
        v: order, any real number.
        x: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a derivative in `v`, or a third one in `x`, is asked for.

    Example:
        >>> struve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.7990)
    """

    @overload
    def __call__(self, v: Tensor, x: Tensor | float) -> Tensor: ...
    @overload
    def __call__(self, v: Tensor | float, x: Tensor) -> Tensor: ...

struve: _Struve
