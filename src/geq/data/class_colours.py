"""The published colours of the classes of street scenes, so that masks look as everyone knows them."""

from __future__ import annotations

from geq.errors import unknown_name

Colour = tuple[int, int, int]
VOID: Colour = (0, 0, 0)

PALETTES: dict[str, dict[str, Colour]] = {
    # CamVid's list of label colours; of the 11 classes, each has the colour of its namesake among the 32.
    "camvid": {
        "sky": (128, 128, 128),
        "building": (128, 0, 0),
        "pole": (192, 192, 128),
        "road": (128, 64, 128),
        "pavement": (0, 0, 192),
        "tree": (128, 128, 0),
        "sign symbol": (192, 128, 128),
        "fence": (64, 64, 128),
        "car": (64, 0, 128),
        "pedestrian": (64, 64, 0),
        "bicyclist": (0, 128, 192),
    },
    # The colours of the 19 train ids of Cityscapes.
    "cityscapes": {
        "road": (128, 64, 128),
        "sidewalk": (244, 35, 232),
        "building": (70, 70, 70),
        "wall": (102, 102, 156),
        "fence": (190, 153, 153),
        "pole": (153, 153, 153),
        "traffic light": (250, 170, 30),
        "traffic sign": (220, 220, 0),
        "vegetation": (107, 142, 35),
        "terrain": (152, 251, 152),
        "sky": (70, 130, 180),
        "person": (220, 20, 60),
        "rider": (255, 0, 0),
        "car": (0, 0, 142),
        "truck": (0, 0, 70),
        "bus": (0, 60, 100),
        "train": (0, 80, 100),
        "motorcycle": (0, 0, 230),
        "bicycle": (119, 11, 32),
    },
}
"""Dataset -> class -> red, green, blue."""


def colours_of(dataset: str, classes: tuple[str, ...]) -> tuple[Colour, ...]:
    """The colour of each class, in the order of ``classes``.

    >>> colours_of("cityscapes", ("sky", "road"))
    ((70, 130, 180), (128, 64, 128))
    """
    if dataset not in PALETTES:
        raise unknown_name("palette", dataset, PALETTES)
    known = PALETTES[dataset]
    for name in classes:
        if name not in known:
            raise unknown_name(f"class of {dataset}", name, known)
    return tuple(known[name] for name in classes)
