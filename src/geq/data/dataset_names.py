"""Names of the datasets and a line on each, which need no torch to be listed or checked."""

from __future__ import annotations

from geq.errors import unknown_name

IMAGE_FOLDER = "imagefolder"
"""The dataset that reads a user's own folder."""

SUMMARIES: dict[str, str] = {
    "digits": "scikit-learn's digits, 8×8, comes with the package",
    "mnist": "handwritten digits, 28×28",
    "fashion_mnist": "clothes, 28×28",
    "cifar10": "10 classes, 32×32",
    "cifar100": "100 classes in 20 super-classes, 32×32",
    "imagenette": "10 easy classes of ImageNet",
    "imagenet100": "100 classes of ImageNet: its own folder, or 'imagenet' with a class list",
    "imagenet": "ImageNet's 1,000 classes",
    IMAGE_FOLDER: "your own folder of images, with a folder for each class",
    "cityscapes": "street scenes, 19 classes, 2048×1024",
    "camvid": "street scenes, 11 classes",
    "hub": "a Hugging Face image dataset saved on disk",
}
"""Name -> what the dataset is; :mod:`geq.data.dataset_registry` says how each is read."""


def check_dataset_name(name: str) -> None:
    """Refuse a name that no dataset has."""
    if name not in SUMMARIES:
        raise unknown_name("dataset or folder of images", name, SUMMARIES)
