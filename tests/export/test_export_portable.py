"""Networks in plain operations, run without any exporter: they must be the networks that they copy."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from geq.cells import Cell, EnergyProblem
from geq.data.dataset import Statistics
from geq.equilibrium import ignore_failures
from geq.errors import OptionError
from geq.export.portable_network import PortableNetwork
from geq.kernels import GaussianKernel, Kernel
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.operators import Dense
from geq.solvers import Broyden

FAMILIES: list[tuple[str, dict[str, Any]]] = [
    ("geq_tiny", {}),
    ("geq_tiny", {"gamma": "paper"}),
    ("geq_tiny", {"constraint": "weight"}),
    ("geq_tiny", {"gradient": "unrolled"}),
    ("geq_tiny", {"gradient": "averaging", "regulariser": "decay"}),
    ("geq_tiny_control", {}),
    ("geq_tiny_nonpatch", {}),
    ("kerdeq_tiny", {}),
    ("opteq_tiny", {}),
    ("mopteq_tiny", {}),
    ("mopteq_tiny_polynomial", {}),
    ("mopteq_tiny_sigmoid", {}),
    ("deep_opteq_tiny", {}),
    ("deep_opteq_tiny", {"activation": "elu", "learn_alpha": True}),
    ("deep_opteq_tiny", {"regulariser": "sparsity"}),
    ("mdeq_tiny", {}),
    ("resnet_tiny", {}),
    ("dnn_tiny", {}),
]


def statistics(network: Network) -> Statistics:
    channels = network.input_shape[0]
    return Statistics((0.4,) * channels, (0.3,) * channels)


def portable(network: Network) -> PortableNetwork:
    return PortableNetwork(network, statistics(network), network.input_shape[1:])


def normalised(images: torch.Tensor) -> torch.Tensor:
    return (images - 0.4) / 0.3


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, marks=pytest.mark.slow if name == "mdeq_tiny" else ())
        for name, options in FAMILIES
    ],
    ids=["-".join((name, *map(str, options.values()))) for name, options in FAMILIES],
)
def test_logits_residuals_and_steps_are_those_of_the_network(name: str, options: dict[str, Any]) -> None:
    network = create_model(name, **options)
    # Statistics of γ and of the norms as after some training, not those of fresh layers.
    network.train()(torch.randn(8, *network.input_shape))
    network.eval()
    images = torch.rand(5, *network.input_shape)
    copied = portable(network)
    with torch.no_grad(), ignore_failures(network):
        expected = network(normalised(images))
        outputs = copied(images)
    torch.testing.assert_close(outputs[0], expected, rtol=1e-5, atol=1e-5)
    layers = network.equilibria()
    assert copied.equilibria == tuple(layers)
    assert len(outputs) == (4 if layers else 1)
    for column, layer in enumerate(layers.values()):
        solution = layer.last_solution
        assert solution is not None
        assert outputs[2][:, column].tolist() == solution.steps.tolist()
        torch.testing.assert_close(outputs[1][:, column], solution.residual, rtol=0.01, atol=1e-6)
    if layers:
        tolerances = torch.tensor([layer.tol for layer in layers.values()])
        assert outputs[3].tolist() == (outputs[1] <= tolerances).all(1).tolist()


def test_the_network_itself_is_not_changed() -> None:
    network = create_model("geq_tiny").eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    portable(network)
    after = network.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_an_image_that_does_not_converge_is_reported() -> None:
    network = create_model("geq_tiny", max_steps=2).eval()
    _, residual, steps, converged = portable(network)(torch.rand(3, 1, 8, 8))
    assert bool((steps == 2).all())
    assert bool((residual > 1e-3).any(1).all())
    assert not bool(converged.any())


def test_an_image_that_is_no_number_is_reported_and_spoils_no_other() -> None:
    copied = portable(create_model("geq_tiny").eval())
    images = torch.rand(3, 1, 8, 8)
    clean = copied(images)
    images[1, 0, 0, 0] = torch.nan
    logits, residual, _, converged = copied(images)
    assert converged.tolist() == [True, False, True]
    assert bool(residual[1].isinf().any())
    torch.testing.assert_close(logits[[0, 2]], clean[0][[0, 2]], rtol=0, atol=1e-6)


def test_a_sample_does_not_depend_on_its_batch() -> None:
    copied = portable(create_model("kerdeq_tiny").eval())
    images = torch.rand(7, 1, 8, 8)
    together = copied(images)
    for i in range(7):
        alone = copied(images[i : i + 1])
        torch.testing.assert_close(alone[0][0], together[0][i], rtol=0, atol=1e-6)
        assert alone[2].tolist() == together[2][i : i + 1].tolist()


def test_half_precision_weights_are_solved_in_single() -> None:
    network = create_model("geq_tiny").eval().bfloat16()
    logits, residual, _, converged = portable(network)(torch.rand(2, 1, 8, 8))
    assert logits.dtype == residual.dtype == torch.float32
    assert bool(converged.all())


def test_what_cannot_be_exported_says_why() -> None:
    with pytest.raises(OptionError, match="Fourier"):
        portable(create_model("mon_tiny"))
    with pytest.raises(OptionError, match="torchdiffeq"):
        portable(create_model("node_tiny"))
    with pytest.raises(OptionError, match="depends on the other images"):
        portable(create_model("deep_opteq_tiny", regulariser="decorrelation"))
    with pytest.raises(OptionError, match="depends on the other images"):
        portable(create_model("geq_tiny", gradient="averaging", regulariser="hsic"))
    network = create_model("opteq_tiny").eval()
    (layer,) = network.equilibria().values()
    layer.solver = Broyden()
    with pytest.raises(OptionError, match="Anderson and Picard: got Broyden"):
        portable(network)


class Inverse(Kernel):
    """A kernel of one's own, whose gradient is derived."""

    def value(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (1 + ((v - u) ** 2).flatten(1).sum(1)).rsqrt()


class OwnProblem(EnergyProblem):
    """A problem of one's own, with a score."""

    def score(self, z: torch.Tensor, c: Any) -> torch.Tensor:
        return super().score(z, c)


def test_derived_gradients_are_refused() -> None:
    from geq.equilibrium import Equilibrium
    from geq.export.cell_maps import attraction_of, plain_map

    with pytest.raises(OptionError, match="Inverse cannot be exported"):
        attraction_of(Inverse(), torch.float32)
    layer = Equilibrium(OwnProblem(GaussianKernel(0.5), W=Dense(8, 4), U=Dense(3, 4)))
    with pytest.raises(OptionError, match="OwnProblem is differentiated by autograd"):
        plain_map(layer, in_features=False)


def test_a_cell_of_ones_own_is_taken_as_it_is() -> None:
    from geq.equilibrium import Equilibrium
    from geq.export.portable_model import PortableEquilibrium, PortableSolve

    class Tanh(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(0.1 * torch.randn(4, 4))

        def forward(self, z: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return torch.tanh(z @ self.weight + c)

    layer = Equilibrium(Tanh(), tol=1e-6).eval().requires_grad_(False)
    x = torch.randn(3, 4)
    solve = PortableSolve()
    solve.begin(torch.tensor(1e-6), torch.tensor(50))
    copied = PortableEquilibrium(layer, False, 1.0, solve, x)
    torch.testing.assert_close(copied(x), layer(x), rtol=1e-5, atol=1e-6)
