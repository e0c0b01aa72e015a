"""Networks around equilibria, their baselines, and the registry that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geq.model.network import Network

__all__ = ["Network"]


def __getattr__(name: str) -> Any:
    """Load :class:`Network` on first use: the registry, beside it, must answer without torch."""
    if name == "Network":
        from geq.model.network import Network

        return Network
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
