"""Functions of `scipy.ndimage`, under its names."""

from .gaussian import gaussian_filter as gaussian_filter
from .interpolation import map_coordinates as map_coordinates
