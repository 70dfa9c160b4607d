"""Functions of `scipy.optimize`, under its names."""

from .assignment import linear_sum_assignment as linear_sum_assignment
from .brentq import brentq as brentq
from .exchange import ConvergenceError as ConvergenceError
from .root import root as root
