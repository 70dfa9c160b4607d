"""Functions of `scipy.special`, under its names.

The operators of a family are declared when one of its functions is first asked for.
"""

import importlib as _importlib

from .undeclared import declare_when_asked as _declare_when_asked

_FAMILY = {
    name: family
    for family, names in {
        "airy_functions": "airy",
        "bessel": "iv ive jv jve kv kve yv yve",
        "beta": "betainc betaincc betainccinv betaincinv",
        "distributions": "chdtr chdtrc fdtr pdtr stdtr stdtrit",
        "elliptic": "ellipe ellipk ellipkm1",
        "gamma": "gammainc gammaincc gammainccinv gammaincinv",
        "hurwitz": "zeta",
        "hyper": "hyp0f1 hyp1f1 hyp2f1",
        "integrals": "dawsn erfcx erfi exp1 expi expn fresnel shichi sici spence",
        "lambert": "lambertw",
        "log_gamma": "betaln digamma gammaln polygamma",
        "logarithms": "boxcox inv_boxcox xlog1py xlogy",
        "normal": "log_ndtr ndtri",
        "owens": "owens_t",
        "spherical": "spherical_in spherical_jn spherical_kn spherical_yn",
        "struve_functions": "struve",
    }.items()
    for name in names.split()
}
__all__ = tuple(_FAMILY)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _FAMILY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = getattr(_importlib.import_module(f".{_FAMILY[name]}", __name__), name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_FAMILY})


_declare_when_asked([f"{__name__}.{family}" for family in dict.fromkeys(_FAMILY.values())])
