"""Functions of `scipy.special`, under its names."""

from .bessel import iv as iv
from .bessel import jv as jv
from .bessel import kv as kv
from .bessel import kve as kve
from .bessel import yv as yv
from .beta import betainc as betainc
from .beta import betaincc as betaincc
from .beta import betainccinv as betainccinv
from .beta import betaincinv as betaincinv
from .gamma import gammainc as gammainc
from .gamma import gammaincc as gammaincc
from .gamma import gammainccinv as gammainccinv
from .gamma import gammaincinv as gammaincinv
