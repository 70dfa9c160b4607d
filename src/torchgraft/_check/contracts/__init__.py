"""The contract battery: importing it adds its checks."""

from . import aliasing as aliasing
from . import autocast as autocast
from . import captures as captures
from . import compiled as compiled
from . import determinism as determinism
from . import exported as exported
from . import fake as fake
from . import freed as freed
from . import layouts as layouts
from . import leaks as leaks
from . import linearity as linearity
from . import mapped as mapped
from . import modes as modes
from . import mutation as mutation
from . import opcheck as opcheck
from . import outputs as outputs
from . import randomness as randomness
from . import reference as reference
from . import returned as returned
from . import second_order as second_order
from . import sizes as sizes
from . import state as state
from . import subsets as subsets
from . import tangents as tangents
from . import threads as threads
from . import ties as ties
