"""Training on several processes of this machine, which torch's own launcher starts."""

from __future__ import annotations

import os
import sys
from typing import Any

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from .._examples.mesh import main


def run(processes: int, *, quick: bool) -> int:
    """Run the example of a mesh; the exit status is 1 if a rank raised, or a comparison failed."""
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=processes, rdzv_backend="c10d", rdzv_endpoint="localhost:0",
        local_addr="localhost", run_id=str(os.getpid()), max_restarts=0,
    )  # fmt: skip
    arguments = (1, 256) if quick else ()
    try:
        failures = elastic_launch(config, rank_main)(*arguments)[0]
    except ChildFailedError as error:
        rank, cause = error.get_first_failure()
        print(f"rank {rank} failed:\n{_text(cause.message)}", file=sys.stderr)
        return 1
    print()
    for failure in failures:
        print("FAILED:", failure)
    print("finished" if failures else "all checks passed")
    return 1 if failures else 0


@record
def rank_main(*arguments: Any) -> list[str]:
    """The example on one rank; an error is written down for the launcher."""
    failures: list[str] = main(*arguments)
    return failures


def _text(message: str | dict[str, dict[str, str]]) -> str:
    """The traceback of a rank, or how it ended if it had no time to write one."""
    return message if isinstance(message, str) else message["extraInfo"]["py_callstack"]
