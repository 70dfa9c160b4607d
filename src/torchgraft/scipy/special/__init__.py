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
        "distributions": "chdtr chdtrc fdtr pdtr stdtr stdtrit",
        "elliptic": "ellipe ellipk ellipkm1",
        "hurwitz": "zeta",
        "hyper": "hyp0f1 hyp1f1 hyp2f1",
        "incomplete_beta": "betainc betaincc betainccinv betaincinv",
        "incomplete_gamma": "gammainc gammaincc gammainccinv gammaincinv",
        "integrals": "dawsn erfcx erfi exp1 expi expn fresnel shichi sici spence",
        "lambert": "lambertw",
        "log_gamma": "betaln digamma gammaln polygamma",
        "logarithms": "boxcox inv_boxcox xlog1py xlogy",
        "normal": "log_ndtr ndtri",
        "owens": "owens_t",
        "spherical": "spherical_in spherical_jn spherical_kn spherical_yn",
        "struve_functions": "struve",
    }.items()  # No file has the name of a function of SciPy, which it would hide.
    for name in names.split()
}
__all__ = tuple(_FAMILY)


def __getattr__(name: str) -> object:
    if name not in _FAMILY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = getattr(_importlib.import_module(f".{_FAMILY[name]}", __name__), name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_FAMILY})


_declare_when_asked([f"{__name__}.{family}" for family in dict.fromkeys(_FAMILY.values())])
