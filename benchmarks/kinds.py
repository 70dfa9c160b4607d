"""Costs of the kinds of operators, beside plain ones, torch's own functions and what people write by hand.

Run it as

    python benchmarks/kinds.py [KIND ...]    # prints the table
    python benchmarks/kinds.py --write       # and puts it into docs/benchmarks.md
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from _kinds.lists import lists
from _kinds.seeds import seeds
from _kinds.sizes import sizes
from _kinds.structures import structures
from _kinds.written import written
from _timing import run

BENCHMARKS = {"written": written, "structures": structures, "seeds": seeds, "lists": lists, "sizes": sizes}

if __name__ == "__main__":
    run("kinds", __doc__, BENCHMARKS)
