"""Functions of `scipy.special`."""

from .gamma import gammainc as gammainc
