"""``python -m stress.fault short|long SEED KIND…``: the parent of all children; prints each row as JSON."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

from stress.fault.mount import own_mounts
from stress.fault.scale import Scale

LOADED = (
    *(
        "geq.cli",
        "geq.training.fit",
        "geq_papers.experiment.child",
        "geq_papers.experiment.runner",
        "geq.data.fetch",
    ),
    *("geq.command.train", "geq_papers.command.reproduce", "geq.command.data", "geq_papers.command.report"),
    *("geq.command.export", "geq.command.weights", "geq.command.evaluate", "geq.command.runs"),
    *("geq.export", "geq.weights.pack", "geq_papers.report.page", "geq.analysis.part", "geq.weights.measure"),
    *("torch.utils.tensorboard", "lightning.fabric", "jsonargparse", "rich.progress", "rich.table"),
    *("sklearn.datasets", "PIL.Image", "matplotlib.figure", "skimage", "scipy.ndimage", "yaml"),
)
"""What the children would otherwise load each by itself."""


def main(arguments: list[str]) -> int:
    form, seed, *kinds = arguments
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # ends what it has started as well
    own_mounts()
    import torch

    torch.set_num_threads(1)
    for name in LOADED:
        import_module(name)
    # Whoever forks is warned of threads; those that are here (of imports) do not compute.
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix=f"geq-fault-{kind}-") as folder:
            begun = time.monotonic()
            scale = Scale(form == "short", int(seed), Path(folder))
            for row in import_module(f"stress.fault.{kind}").attack(scale):
                timed = replace(row, seconds=round(time.monotonic() - begun, 1))
                print(json.dumps(asdict(timed)), flush=True)
                begun = time.monotonic()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
