"""The log of a run, for people, programs and TensorBoard."""

from __future__ import annotations

from typing import Any

from geq.training.run_folder import RunFolder


class Journal:
    """Write ``log.jsonl`` and the events of TensorBoard.

    Args:
        folder: of the run.
        step: optimiser steps so far; TensorBoard forgets what a killed process has written after them.
    """

    def __init__(self, folder: RunFolder, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        self.writer: Any = SummaryWriter(str(folder.tensorboard), purge_step=step + 1)

    def write(self, history: list[dict[str, Any]]) -> None:
        """Write the whole log, and the numbers of its last line for TensorBoard."""
        self.folder.write_log(history)
        for name, value in history[-1].items():
            if isinstance(value, float):
                self.writer.add_scalar(name.replace("_", "/", 1), value, history[-1]["step"])
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
