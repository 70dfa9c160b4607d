"""SciPy's functions as operators of PyTorch, under SciPy's names, with derivatives that are right.

>>> from torchgraft.scipy import special
>>> special.gammainc(a, x)
"""

try:
    import scipy as scipy
except ImportError as error:
    raise ImportError("torchgraft.scipy needs SciPy: pip install 'torchgraft[scipy]'") from error
