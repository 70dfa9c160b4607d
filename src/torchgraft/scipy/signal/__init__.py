"""Functions of `scipy.signal`, under its names."""

from .correlation import convolve as convolve
from .correlation import correlate as correlate
from .filters import lfilter as lfilter
from .filters import sosfilt as sosfilt
