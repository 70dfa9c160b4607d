"""Functions of `scipy.special`, under its names."""

from .gamma import gammainc as gammainc
from .gamma import gammaincc as gammaincc
from .gamma import gammainccinv as gammainccinv
from .gamma import gammaincinv as gammaincinv
