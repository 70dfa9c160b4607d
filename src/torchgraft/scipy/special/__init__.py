"""Functions of `scipy.special`, under its names."""

from .beta import betainc as betainc
from .beta import betaincc as betaincc
from .beta import betainccinv as betainccinv
from .beta import betaincinv as betaincinv
from .gamma import gammainc as gammainc
from .gamma import gammaincc as gammaincc
from .gamma import gammainccinv as gammainccinv
from .gamma import gammaincinv as gammaincinv
