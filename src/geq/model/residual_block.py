"""Residual blocks (He et al. 2016), of the ResNets and of the extractor of Deep OptEq on ImageNet."""

from __future__ import annotations

from torch import Tensor, nn


def plain_convolution(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    """y = ReLU(shortcut(x) + branch(x)); a 1×1 convolution is the shortcut where shapes differ."""

    def __init__(self, branch: nn.Sequential, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                plain_convolution(in_channels, out_channels, 1, stride), nn.BatchNorm2d(out_channels)
            )
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.shortcut(x) + self.branch(x))


def basic_block(in_channels: int, width: int, stride: int) -> ResidualBlock:
    """3×3 (with the stride), 3×3."""
    branch = nn.Sequential(
        plain_convolution(in_channels, width, 3, stride),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        plain_convolution(width, width, 3),
        nn.BatchNorm2d(width),
    )
    return ResidualBlock(branch, in_channels, width, stride)


def bottleneck_block(in_channels: int, width: int, stride: int, inner: int) -> ResidualBlock:
    """1×1 down to ``inner · width``, 3×3 (with the stride), 1×1 up to ``4 · width``."""
    middle = inner * width
    branch = nn.Sequential(
        plain_convolution(in_channels, middle, 1),
        nn.BatchNorm2d(middle),
        nn.ReLU(),
        plain_convolution(middle, middle, 3, stride),
        nn.BatchNorm2d(middle),
        nn.ReLU(),
        plain_convolution(middle, 4 * width, 1),
        nn.BatchNorm2d(4 * width),
    )
    return ResidualBlock(branch, in_channels, 4 * width, stride)
