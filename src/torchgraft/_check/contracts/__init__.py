"""The contract battery; importing it adds its checks, in the order in which they run."""

from . import determinism as determinism
from . import layouts as layouts
from . import linearity as linearity
from . import mutation as mutation
from . import outputs as outputs
from . import subsets as subsets
