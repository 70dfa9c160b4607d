"""SciPy's functions as operators of PyTorch, under SciPy's names, with derivatives that are right.

>>> from torchgraft.scipy import special
>>> special.gammainc(a, x)
"""
