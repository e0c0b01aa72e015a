"""Activations as penalties: which f has a given σ as its prox.

Every monotone, 1-Lipschitz σ is one (OptEq, assumption 1): with y a point where σ(y) = z, f'(z) = y − z. So f
is known as soon as σ is, in closed form for the usual ones and numerically for any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.errors import OptionError
from geq.penalties.base import L1, Box, LeakyPenalty, NonNegative, NoPenalty, Penalty

Function = Callable[[Tensor], Tensor]

PANELS, NODES = 32, 8
"""Of the quadrature of a primitive: panels that widen away from 0, and Gauss–Legendre nodes in each."""
SLACK = 1e-7
"""How far a measured slope may leave [0, 1]: rounding of a function that was written in single precision."""


class ActivationPenalty(Penalty):
    """The f whose prox is a given elementwise function σ, with everything but σ found numerically.

    * primitive: σ̃(s) = ∫₀ˢσ by quadrature (to about 1e-10 where σ is smooth);
    * cost: f(z) = yz − ½z² − σ̃(y) with σ(y) = z, infinite where σ does not reach z;
    * prox with another step t: z = σ(y) where ty + (1 − t)σ(y) = s, differentiable once.

    Args:
        function: σ, without weights of its own; refused with the place where it fails if it is not monotone
            or not 1-Lipschitz on a dense grid of [−10⁴, 10⁴]. A grid proves nothing between its points, so
            only the functions of :data:`PROVED` allow a certificate of uniqueness.

    >>> ActivationPenalty(nn.Softsign()).prox(torch.tensor([[-1.0, 3.0]]))
    tensor([[-0.5000,  0.7500]])
    """

    def __init__(self, function: Function) -> None:
        super().__init__()
        check_activation(function)
        self.function = function

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return type(self.function) in PROVED

    def prox(self, s: Float[Tensor, " batch *state"], step: float = 1.0) -> Float[Tensor, " batch *state"]:
        if step == 1:
            return self.function(s)
        with torch.no_grad():
            # |y − s| is at most |h(s) − s| over the least slope of h(y) = ty + (1 − t)σ(y)
            reach = (step - 1) * (s - self.function(s))
            reach = reach.abs() / min(step, 1.0)
            y = bisect(lambda y: step * y + (1 - step) * self.function(y) - s, s - reach, s + reach)
            missing = s - step * y - (1 - step) * self.function(y)
            rate = step + (1 - step) * self.slope(y)
        # One step of Newton's method, which carries the derivative dy/ds = 1/h'.
        return self.function(y + (missing + (s - s.detach())) / rate)

    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        with torch.enable_grad():
            s = s.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.function(s).sum(), s, materialize_grads=True)
        return slope

    def primitive(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        # t = ±(e^v − 1): equal panels in v are fine near 0, where activations bend, and reach far.
        nodes, weights = numpy.polynomial.legendre.leggauss(NODES)
        width = torch.log1p(s.abs()) / PANELS
        total = torch.zeros_like(s)
        for panel in range(PANELS):
            for node, weight in zip(nodes, weights, strict=True):
                v = width * (panel + 0.5 * (1 + float(node)))
                total = total + (0.5 * float(weight)) * v.exp() * self.function(s.sign() * v.expm1())
        return s.sign() * width * total

    def cost(self, z: Float[Tensor, "*state"]) -> Float[Tensor, "*state"]:
        with torch.no_grad():
            y = self.inverse(z)
        reached = y.isfinite()
        y = torch.where(reached, y, 0.0)
        return torch.where(reached, (y - 0.5 * z) * z - self.primitive(y), math.inf)

    def inverse(self, z: Tensor) -> Tensor:
        """Return a y with σ(y) = z; infinite where there is none."""
        centre = self.function(torch.zeros_like(z))
        sign = (z - centre).sign()
        far = (z - centre).abs()  # at least so far, as σ is 1-Lipschitz

        def ahead(distance: Tensor) -> Tensor:
            """Above 0 once σ has passed z."""
            return sign * (self.function(sign * distance) - z)

        for _ in range(40):
            far = torch.where((ahead(far) < 0) & (far < 1e8), 2 * far, far)
        y = sign * bisect(ahead, torch.zeros_like(far), far)
        near = 4 * torch.finfo(z.dtype).eps * (1 + z.abs())
        return torch.where((self.function(y) - z).abs() <= near * 1e3, y, math.inf)

    def extra_repr(self) -> str:
        # A module shows itself among the children, a known function in the name of the class.
        shown = isinstance(self.function, nn.Module) or type(self) is not ActivationPenalty
        return "" if shown else getattr(self.function, "__name__", "")


PROVED = (nn.Softsign, nn.LogSigmoid, nn.Tanhshrink, nn.Hardsigmoid, nn.CELU)
"""Modules whose slope is proved to lie in [0, 1]: 1/(1 + |s|)², sigmoid(−s), tanh²(s), 0 or 1/6, and e^{s/α}.
Softplus is not among them: above its threshold it is replaced by the identity, which is a step down."""


class TanhPenalty(ActivationPenalty):
    """f = ½(1 + z)log(1 + z) + ½(1 − z)log(1 − z) − ½z²: the prox is tanh. (The first two terms are the
    integral of artanh.)

    >>> TanhPenalty().prox(torch.tensor([[0.0, 1.0]]))
    tensor([[0.0000, 0.7616]])
    """

    convex = True

    def __init__(self) -> None:
        Penalty.__init__(self)
        self.function = torch.tanh

    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return 1 - s.tanh().square()

    def primitive(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return s.abs() + F.softplus(-2 * s.abs()) - math.log(2)  # log cosh s

    def cost(self, z: Float[Tensor, "*state"]) -> Float[Tensor, "*state"]:
        inside = z.clamp(-1, 1)
        entropy = torch.xlogy(1 + inside, 1 + inside) + torch.xlogy(1 - inside, 1 - inside)
        return torch.where(inside == z, 0.5 * (entropy - inside.square()), math.inf)


class SigmoidPenalty(ActivationPenalty):
    """f = z log z + (1 − z)log(1 − z) − ½z²: the prox is the logistic function, which is ¼-Lipschitz.

    >>> SigmoidPenalty().prox(torch.tensor([[0.0, 1.0]]))
    tensor([[0.5000, 0.7311]])
    """

    convex = True

    def __init__(self) -> None:
        Penalty.__init__(self)
        self.function = torch.sigmoid

    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return s.sigmoid() * (-s).sigmoid()

    def primitive(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return F.softplus(s)

    def cost(self, z: Float[Tensor, "*state"]) -> Float[Tensor, "*state"]:
        inside = z.clamp(0, 1)
        entropy = torch.xlogy(inside, inside) + torch.xlogy(1 - inside, 1 - inside)
        return torch.where(inside == z, entropy - 0.5 * inside.square(), math.inf)


KNOWN_FUNCTIONS: dict[Function, type[Penalty]] = {
    torch.relu: NonNegative,
    F.relu: NonNegative,
    torch.tanh: TanhPenalty,
    torch.sigmoid: SigmoidPenalty,
    F.sigmoid: SigmoidPenalty,
}


def penalty_of(activation: Penalty | Function | None) -> Penalty:
    """Return the penalty that belongs to an activation: a module such as ``nn.Tanh()``, or any function.

    None is ReLU. What is neither monotone nor 1-Lipschitz is no prox, and refused.

    >>> penalty_of(nn.LeakyReLU(0.2))
    LeakyPenalty(negative_slope=0.2)
    >>> penalty_of(nn.Softplus())
    ActivationPenalty(
      (function): Softplus(beta=1.0, threshold=20.0)
    )
    """
    match activation:
        case Penalty():
            return activation
        case None | nn.ReLU():
            return NonNegative()
        case nn.LeakyReLU():
            return LeakyPenalty(activation.negative_slope) if activation.negative_slope else NonNegative()
        case nn.Tanh():
            return TanhPenalty()
        case nn.Sigmoid():
            return SigmoidPenalty()
        case nn.Hardtanh():  # ReLU6 is one
            return Box(activation.min_val, activation.max_val)
        case nn.Softshrink():
            return L1(activation.lambd)
        case nn.Identity():
            return NoPenalty()
    assert activation is not None
    known = KNOWN_FUNCTIONS.get(activation)
    return ActivationPenalty(activation) if known is None else known()


@torch.no_grad()
def check_activation(function: Function) -> None:
    """Refuse what is no prox: the function must be elementwise, finite, monotone and 1-Lipschitz."""
    name = getattr(function, "__name__", None) or repr(function)
    if isinstance(function, nn.Module) and any(True for _ in function.parameters()):
        raise OptionError(f"an activation must have no weights of its own: got {name}; use nn.LeakyReLU(a)")
    s = probe_points()
    given = s.clone()
    values = function(given)
    if not isinstance(values, Tensor) or values.shape != s.shape:
        raise OptionError(f"an activation must give a tensor of its argument's shape: got {name}")
    if not torch.equal(given, s):
        raise OptionError(f"an activation must not change its argument: got {name}; use inplace=False")
    if not bool(values.isfinite().all()):
        bad = float(s[~values.isfinite()][0])
        raise OptionError(f"an activation must be finite: got {name}, which is not at {bad:.4g}")
    some = slice(None, None, 7)
    if not torch.allclose(function(s[some].flip(0)).flip(0), values[some], rtol=1e-6, atol=1e-9):
        raise OptionError(f"an activation must act on every entry alone, and always alike: got {name}")
    slope = values.diff() / s.diff()
    for wrong, must in ((slope < -SLACK, "not decrease"), (slope > 1 + SLACK, "be 1-Lipschitz")):
        if bool(wrong.any()):
            excess = torch.where(wrong, (slope - 0.5).abs(), 0.0)
            worst = int(excess.argmax())
            raise OptionError(
                f"an activation must {must}, or it is the prox of nothing: got {name}, with the slope "
                f"{float(slope[worst]):.4g} near {float(s[worst]):.4g}; use ReLU, LeakyReLU, Tanh, ELU or "
                "Softplus, or scale it down"
            )


def probe_points() -> Tensor:
    """Return the sample points of activations: every 1/1000 up to 20, then 100 points per decade."""
    dense = torch.linspace(0, 20, 20_001, dtype=torch.float64)
    sparse = torch.logspace(math.log10(20), 4, 271, dtype=torch.float64)[1:]
    half = torch.cat((dense, sparse))
    return torch.cat((-half[1:].flip(0), half))


def bisect(increasing: Function, low: Tensor, high: Tensor) -> Tensor:
    """Return the zero of an increasing function between ``low`` and ``high``, elementwise."""
    for _ in range(64 if low.dtype == torch.float64 else 40):
        middle = 0.5 * (low + high)
        above = increasing(middle) >= 0
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return high
