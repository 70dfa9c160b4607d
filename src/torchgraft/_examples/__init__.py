"""The files of `examples/`: a wheel carries them in this folder, a checkout has them at its root."""

from pathlib import Path

__path__.append(str(Path(__file__).parents[3] / "examples"))
