from __future__ import annotations

import pytest

from geq.data.class_colours import PALETTES, VOID, colours_of
from geq.data.segmentation import CAMVID_CLASSES, CITYSCAPES_TRAIN_IDS
from geq.errors import OptionError


def test_every_class_has_a_colour_of_its_own() -> None:
    for name, classes in (("camvid", CAMVID_CLASSES), ("cityscapes", tuple(CITYSCAPES_TRAIN_IDS.values()))):
        colours = colours_of(name, classes)
        assert len({*colours, VOID}) == len(classes) + 1
        assert list(PALETTES[name]) == list(classes)
        assert all(0 <= part <= 255 for colour in colours for part in colour)


def test_unknown_names_give_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'camvid'"):
        colours_of("camvit", ("sky",))
    with pytest.raises(OptionError, match="did you mean 'pavement'"):
        colours_of("camvid", ("pavment",))
