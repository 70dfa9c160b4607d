"""What a check found: as text, as data, as a page and as pictures."""
