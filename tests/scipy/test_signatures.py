"""Names, parameters and defaults are those of the SciPy that is installed."""

import importlib
import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize

from torchgraft.scipy import fft, ndimage, optimize, signal, special

PACKAGES = {
    special: """
        gammainc gammaincc gammaincinv gammainccinv betainc betaincc betaincinv betainccinv gammaln betaln digamma
        polygamma stdtr stdtrit fdtr chdtr chdtrc pdtr jv yv iv kv jve yve ive kve exp1 expi expn ellipk ellipkm1 ellipe
        lambertw erfcx erfi dawsn sici shichi fresnel spence struve zeta owens_t hyp0f1 hyp1f1 hyp2f1 spherical_jn
        spherical_yn spherical_in spherical_kn airy xlogy xlog1py boxcox inv_boxcox ndtri log_ndtr
    """,
    signal: "lfilter sosfilt correlate convolve",
    ndimage: "map_coordinates gaussian_filter",
    fft: "dct idct dst idst",
    optimize: "linear_sum_assignment root brentq",
}
NAMES = [(package, name) for package, names in PACKAGES.items() for name in names.split()]

NONE = inspect.Parameter.empty


def theirs(package, name):
    """Names and defaults of the parameters in SciPy; what it writes into, `out`, is left out."""
    function = getattr(importlib.import_module(package.__name__.removeprefix("torchgraft.")), name)
    if isinstance(function, np.ufunc):
        head = re.search(rf"^ *{function.__name__}\((\w[^/>]*), out=None\)$", function.__doc__, re.M)
        return dict.fromkeys(head[1].split(", "), NONE)
    if function is scipy.optimize.linear_sum_assignment:  # a builtin without a signature
        parameters = function.__doc__.partition("Parameters")[2].partition("Returns")[0]
        found = re.findall(r"^(\w+) : \w+(?: \(default: (\w+)\))?$", parameters, re.M)
        return {parameter: {"": NONE, "False": False}[default] for parameter, default in found}
    return plain(function)


def plain(function):
    return {p.name: p.default for p in inspect.signature(function).parameters.values() if p.name != "out"}


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[name for _, name in NAMES])
def test_parameters_are_those_of_scipy(package, name):
    assert plain(getattr(package, name)) == theirs(package, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_else_looks_public(package):
    public = {name for name in dir(package) if not name.startswith("_") and callable(getattr(package, name))}
    assert public - {"ConvergenceError"} == set(PACKAGES[package].split())


@pytest.mark.slow
def test_without_scipy_the_error_names_the_extra():
    program = "import sys; sys.modules['scipy'] = None; from torchgraft.scipy import special"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "ImportError: torchgraft.scipy needs SciPy: pip install 'torchgraft[scipy]'" in found.stderr
