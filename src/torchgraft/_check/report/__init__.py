"""Reports of checks: as text, as data, as a page and as pictures."""
