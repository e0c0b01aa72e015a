"""An equation at its solution, as gradients see it: products with its transposed Jacobian."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Linearisation(ABC):
    """T at z*. The transposed Jacobian comes in three factors, Jᵀ = ``extend``·``core``·``restrict``.

    So u = g + Jᵀu can be solved in the space in the middle, which may be smaller: q = restrict(u) obeys
    q = restrict(g) + gram(core(q)), gram = restrict·extend, and u = g + extend(core(q)). By default the
    middle space is that of the states, and the outer factors are the identity.

    Attributes:
        inputs: What T depends on besides z, with its graph.
        symmetric: Whether ``core`` is symmetric and ``gram`` symmetric and positive semidefinite.
        gram_norm: A bound on the norm of ``gram``; infinite where none is known.
    """

    inputs: tuple[Tensor, ...]
    symmetric = False
    gram_norm = math.inf

    def restrict(self, u: Tensor) -> Tensor:
        """Map the states to the space in the middle."""
        return u

    @abstractmethod
    def core(self, q: Tensor) -> Tensor:
        """Map within the space in the middle; returns a new tensor."""

    def extend(self, p: Tensor) -> Tensor:
        """Map the space in the middle to the states."""
        return p

    def gram(self, p: Tensor) -> Tensor:
        """Return restrict(extend(p))."""
        return self.restrict(self.extend(p))

    def right_hand_side(self, g: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """Return restrict(g/size) as a new tensor, and ‖D·g/size‖² of every sample; D is what T reacts to."""
        masked = self.restrict(g) / size
        return masked, masked.flatten(1).square().sum(1)

    @abstractmethod
    def pull_back(self, u: Tensor, restricted: Tensor | None) -> tuple[Tensor, ...]:
        """Return ∂T/∂inputᵀ·u for every input; takes over the memory of u.

        Args:
            u: The adjoint.
            restricted: restrict(u), if known.
        """


class AutogradLinearisation(Linearisation):
    """T at z* with a graph of one evaluation, for any map; its one input is T itself, and ``core`` is Jᵀ.

    Args:
        fn: The map.
        z: Its fixed point.
    """

    gram_norm = 1.0

    def __init__(self, fn: Callable[[Any], Any], z: Tensor) -> None:
        with torch.enable_grad():
            self.z = z.detach().requires_grad_()
            image = self.evaluate(fn, self.z)
        self.inputs = (image,) if depends_on_more(image, self.z) else ()

    def evaluate(self, fn: Any, z: Tensor) -> Tensor:
        """Return T(z), with ``differentiated``, whose derivative in z is ``core`` transposed."""
        self.differentiated: Tensor = fn(z)
        return self.differentiated

    def core(self, q: Tensor) -> Tensor:
        if not self.differentiated.requires_grad:
            return torch.zeros_like(q)  # the map does not depend on the state at all
        (product,) = torch.autograd.grad(
            self.differentiated, self.z, q, retain_graph=True, materialize_grads=True
        )
        # The derivative of an identity hands on q itself.
        return product.clone() if product.data_ptr() == q.data_ptr() else product

    def pull_back(self, u: Tensor, restricted: Tensor | None) -> tuple[Tensor, ...]:
        return (u,)


class ProximalLinearisation(AutogradLinearisation):
    """The same for T = prox(∇S): J = D·∂s/∂z with a diagonal 0 ≤ D ≤ 1 and the symmetric Hessian ∂s/∂z of S.

    ``restrict`` is D and ``core`` is ∂s/∂z, which is what lets conjugate gradients solve the adjoint system.
    """

    symmetric = True

    def evaluate(self, fn: Any, z: Tensor) -> Tensor:
        self.differentiated = fn.attraction(z)
        self.slope = fn.penalty.slope(self.differentiated.detach())
        return fn.penalty.prox(self.differentiated)

    def restrict(self, u: Tensor) -> Tensor:
        return self.slope * u


def depends_on_more(image: Tensor, z: Tensor) -> bool:
    """Return whether a graph leads to anything that requires grad besides ``z``."""
    seen, left = set(), [image.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and leaf is not z:
            return True
        left.extend(function for function, _ in node.next_functions)
    return False
