"""The soak of random problems, and that its problems are different ones."""

from __future__ import annotations

import random

import torch
from stress.random_problems import drawn, soak


def test_no_claim_is_wrong() -> None:
    rows = list(soak(600, seed=5))
    assert sum(row.tried for row in rows) == 600
    for row in rows:
        assert row.held, row.note
    assert any(row.detail["statuses"].get("converged") for row in rows)
    assert any(row.detail["statuses"].get("not converged") for row in rows)


def test_problems_are_different_and_come_again_with_the_seed() -> None:
    def draw(seed: int) -> tuple[str, torch.Tensor]:
        torch.manual_seed(seed)
        layer, x = drawn(random.Random(seed))
        return str(layer), x

    assert draw(1)[0] == draw(1)[0]
    assert torch.equal(draw(1)[1], draw(1)[1])
    assert len({draw(seed)[0] for seed in range(8)}) == 8
    x = draw(2)[1].flatten(1)
    assert len(torch.unique(x, dim=0)) == len(x)
