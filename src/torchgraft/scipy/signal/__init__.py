"""Functions of `scipy.signal`, under its names."""

from .filters import lfilter as lfilter
from .filters import sosfilt as sosfilt
