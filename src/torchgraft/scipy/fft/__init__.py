"""Functions of `scipy.fft`, under its names."""

from .realtransforms import dct as dct
from .realtransforms import dst as dst
from .realtransforms import idct as idct
from .realtransforms import idst as idst
