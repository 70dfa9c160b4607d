"""Lines that type checkers take, and lines that they refuse."""
