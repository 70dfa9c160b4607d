"""Build the site: `python -m docs._sphinx` at the root of the repository. Warnings are errors."""

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from .gather import gather
from .offline import problems

ROOT = Path(__file__).parents[2]
SOURCES, TREES, SITE = ROOT / "build/pages", ROOT / "build/doctrees", ROOT / "site"


def main() -> int:
    shutil.rmtree(SITE, ignore_errors=True)  # nothing of an earlier build may stay
    gather(ROOT, SOURCES)
    # -E: read everything anew; what the pages take from the modules changes without a change of the sources.
    options = ["-q", "-E", "-W", "--keep-going", "-c", Path(__file__).parent, "-d", TREES, SOURCES, SITE]
    if status := sphinx(list(map(str, options))):
        return status
    if found := list(problems(SITE)):
        print(*found, sep="\n", file=sys.stderr)
        return 1
    print(f"The site is in {SITE}: open {SITE / 'index.html'}")
    return 0


sys.exit(main())
