"""The page of an example: its comment as text, the program, and what it prints."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Example:
    """A program that begins with a comment on what it shows."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def comment(self) -> str:
        return " ".join(line.removeprefix("# ") for line in self._parts()[0])

    @property
    def program(self) -> str:
        return "\n".join(self._parts()[1]).strip()

    def page(self, printed: str) -> str:
        """Its page, in Markdown."""
        return "\n".join(
            [
                f"# {self.name}", "", self.comment, "", "```python", self.program, "```", "",
                f"`python examples/{self.path.name}` prints:", "", "```text", printed.rstrip(), "```", "",
            ]
        )  # fmt: skip

    def _parts(self) -> tuple[list[str], list[str]]:
        lines = self.path.read_text().splitlines()
        end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
        return lines[:end], lines[end:]


TORCHS_OWN = "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
"""What the import of Inductor warns of."""


def run(program: Path) -> str:
    """What a program prints; one that fails, or warns, fails the build."""
    path = os.pathsep.join(filter(None, [str(program.parents[1] / "src"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "error", "-W", TORCHS_OWN, program]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
