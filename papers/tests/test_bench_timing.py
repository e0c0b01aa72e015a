"""Statistics on synthetic timings; counting of bytes and of convolutions on work whose answer is known."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from geq.errors import InputError
from geq_papers.bench.timing import Convolutions, constant, in_turns, peak_bytes, ratio


def test_ratio_forgets_a_disturbed_pair() -> None:
    slow = [2.0, 2.2, 1.8, 2.0, 200.0, 2.0, 2.0, 2.1]
    fast = [1.0, 1.1, 0.9, 1.0, 1.0, 1.0, 50.0, 1.0]
    found = ratio(slow, fast)
    assert found.median == pytest.approx(2.0)
    assert found.low == pytest.approx(2.0)
    assert found.high == pytest.approx(2.0)
    assert found.repeats == 8


def test_ratio_pairs_before_it_takes_the_median() -> None:
    # The machine became ten times slower half way; both series felt it.
    drift = [1.0, 1.0, 10.0, 10.0]
    assert ratio([3 * d for d in drift], drift).median == pytest.approx(3.0)


@pytest.mark.parametrize("a, b", [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0])])
def test_ratio_refuses_what_it_cannot_compare(a: list[float], b: list[float]) -> None:
    with pytest.raises(InputError):
        ratio(a, b)


def test_constant_has_no_spread() -> None:
    assert constant(0.5).low == constant(0.5).high == 0.5


def test_works_run_in_turns_and_every_other_round_backwards() -> None:
    order: list[str] = []
    seconds = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3)
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"
    assert [len(series) for series in seconds.values()] == [3, 3]


def test_peak_counts_what_is_alive_at_once() -> None:
    size = 4 * 2**18

    def one_after_another() -> None:
        for _ in range(5):
            torch.empty(2**18)

    def together() -> list[torch.Tensor]:
        return [torch.empty(2**18) for _ in range(5)]

    assert size <= peak_bytes(one_after_another) < 1.1 * size
    assert 5 * size <= peak_bytes(together) < 5.1 * size


def test_convolutions_are_recorded_with_their_backward() -> None:
    x, w = torch.randn(2, 3, 8, 8, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)
    with Convolutions() as recorded:
        F.conv_transpose2d(F.conv2d(x, w, padding=1).relu(), w, padding=1).sum().backward()
    names = [str(call[0].overloadpacket) for call in recorded.calls]
    assert names == ["aten.convolution"] * 2 + ["aten.convolution_backward"] * 2
    with Convolutions() as again:
        recorded.replay()
    assert [str(call[0].overloadpacket) for call in again.calls] == names
