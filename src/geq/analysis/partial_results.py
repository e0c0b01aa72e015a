"""Resumable cache of partial results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from geq.atomic_io import explained_write_errors, write_durably
from geq.safe_parsing import finite, parse_json
from geq.training.run_folder import RunFolder


class Pieces:
    """A file ``analysis/NAME-KEY.json`` in the folder of a run, rewritten atomically with each piece.

    Args:
        folder: of the run.
        name: of what is computed.
        key: all that the pieces depend on; another key is another file, so that no work is lost.
        again: discard stored pieces.
    """

    def __init__(self, folder: RunFolder, name: str, key: Mapping[str, Any], again: bool = False) -> None:
        self.key = json.loads(json.dumps(dict(key), sort_keys=True))
        digest = hashlib.sha256(json.dumps(self.key, sort_keys=True).encode()).hexdigest()[:10]
        self.path = folder.analysis / f"{name}-{digest}.json"
        self.values: dict[str, Any] = {} if again else self._read()

    def _read(self) -> dict[str, Any]:
        try:
            record = parse_json(self.path.read_text(encoding="utf-8"))
            pieces = record["pieces"] if record["key"] == self.key else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}  # not there, or damaged: computed again
        return pieces if isinstance(pieces, dict) else {}

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        """Keep a piece; it is on the disk when this returns."""
        self.values[name] = finite(value)
        text = json.dumps({"key": self.key, "pieces": self.values}, indent=1, allow_nan=False)
        with explained_write_errors(self.path, "What was written before is kept."):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(self.path, (text + "\n").encode())
