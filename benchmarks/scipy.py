"""What `torchgraft.scipy` costs beside SciPy: `_scipy_speed.py`, which says how to run it.

The scripts beside this one that import SciPy find this file first: they are handed the real one.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    from _scipy_speed import main

    main()
else:
    del sys.modules[__name__]
    here = Path(__file__).resolve().parent
    sys.path.sort(key=lambda entry: Path(entry).resolve() == here)  # this folder last, the others as they were
    import scipy  # noqa: F401
