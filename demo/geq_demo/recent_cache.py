"""Cache of recent results, so that going back on the page costs nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class RecentCache(Generic[Value]):
    """The values that were used last, by their key; one thread at a time makes one.

    Args:
        size: how many.

    >>> squares = RecentCache(size=2)
    >>> [squares.get(n, lambda n=n: n * n) for n in (1, 2, 3)], list(squares.values)
    ([1, 4, 9], [2, 3])
    """

    def __init__(self, size: int) -> None:
        self.size, self._lock = size, Lock()
        self.values: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value for ``key``, made if it is not there."""
        with self._lock:
            value = self.values.pop(key) if key in self.values else make()
            self.values[key] = value
            while len(self.values) > self.size:
                self.values.popitem(last=False)
            return value
