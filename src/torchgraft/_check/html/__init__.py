"""Reports as one HTML page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..report import Report


def html_page(reports: Sequence[Report]) -> str:
    """The page of some reports."""
    return "".join(f"<pre>{html.escape(report.to_text())}</pre>" for report in reports)
