"""References in many digits, kept in `references.json` by function and arguments: some take seconds to compute.

`python -m tests.scipy.references` writes the file anew, with every value that the tests ask for and no other.
"""

import functools
import json
import math
from pathlib import Path

import pytest

FILE = Path(__file__).with_suffix(".json")
KEPT = json.loads(FILE.read_text())
FUNCTIONS = {}


def kept(function):
    """The function of numbers and words, whose values are read from the file."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    FUNCTIONS[name] = function

    @functools.wraps(function)
    def read(*arguments):
        return find(name, repr(arguments))

    return read


def find(name, arguments):
    """What the file has; nothing is computed in its place, which would hide that the file is stale."""
    if arguments not in KEPT.get(name, {}):
        raise LookupError(f"{FILE.name} has no {name}{arguments}: run python -m tests.scipy.references")
    return KEPT[name][arguments]


def computed(name, arguments):
    """The value of a function of the tests at arguments that were written by `repr`."""
    return FUNCTIONS[name](*eval(arguments, {"inf": math.inf}))


def write():
    """Run the tests with a table in the place of the file that computes what it is asked for."""
    global find
    table = {}

    def fill(name, arguments):
        values = table.setdefault(name, {})
        if arguments not in values:
            values[arguments] = computed(name, arguments)
        return values[arguments]

    find = fill
    files = [str(path) for path in FILE.parent.glob("test_*.py") if "import kept" in path.read_text()]
    status = pytest.main([*files, "-q", "-p", "no:xdist"])
    groups = (f"{json.dumps(name)}: {_lines(table[name])}" for name in sorted(table))
    FILE.write_text("{\n" + ",\n".join(groups) + "\n}\n")
    return status


def _lines(values):
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(values[key])}" for key in sorted(values)) + "\n}"


if __name__ == "__main__":
    from tests.scipy import references  # the module that the tests import

    raise SystemExit(references.write())
