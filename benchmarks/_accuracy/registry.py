"""All entries."""

from __future__ import annotations

from .entry import Entry
from .functions import bessel, beta, elementary, gamma, hyper, integrals

FAMILIES = (gamma, beta, bessel, integrals, hyper, elementary)
ENTRIES: dict[str, Entry] = {entry.label: entry for family in FAMILIES for entry in family.ENTRIES}
