"""A solve under ``torch.compile``: left as it is, since its number of steps depends on the data.

A module of its own because it loads the compiler, which costs more than all of geq; only a forward pass that
is being compiled imports it.
"""

from __future__ import annotations

import torch

from geq.equilibrium import Equilibrium

eager_forward = torch.compiler.disable(Equilibrium.evaluate)
