"""The contract battery: importing it adds its checks."""

from . import aliasing as aliasing
from . import captures as captures
from . import determinism as determinism
from . import layouts as layouts
from . import leaks as leaks
from . import linearity as linearity
from . import modes as modes
from . import mutation as mutation
from . import outputs as outputs
from . import randomness as randomness
from . import reference as reference
from . import returned as returned
from . import state as state
from . import subsets as subsets
from . import threads as threads
from . import second_order as second_order
from . import tangents as tangents
from . import mapped as mapped
from . import sizes as sizes
from . import autocast as autocast
from . import compiled as compiled
from . import exported as exported
from . import opcheck as opcheck
from . import fake as fake
