"""Functions of `scipy.ndimage`, under its names."""

from .interpolation import map_coordinates as map_coordinates
