"""Controls of the demo without a browser: real networks with fresh weights."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from geq.analysis.explanation import Explainer
from geq.data.corruption import corrupt, corruption_names
from geq.errors import DataError, GeqError, InputError, OptionError
from geq.model.shipped_networks import shipped_names
from geq.training.run_folder import RunFolder
from geq_demo.input_image import CLEAR, LARGEST_FILE, Distortion, FilePicture, SamplePicture
from geq_demo.markup import coloured
from geq_demo.network_choice import Collection, default_run, gathered
from geq_demo.session import Look, Session
from geq_demo.solve_panel import distance_map, mosaic, part_of, steps_of
from geq_demo.step_chart import Line, step_chart


def sample(session: Session, number: int = 0) -> SamplePicture:
    return session.gallery("patches").pictures[number]


def announced(path: Path, width: int, height: int) -> Path:
    """A PNG whose header promises more than its few bytes hold."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    )
    return path


# the image


def test_gallery_has_a_dozen_images_of_all_classes(session: Session) -> None:
    pictures = session.gallery("patches").pictures
    assert len(pictures) == 12
    assert {picture.truth for picture in pictures} == {str(digit) for digit in range(10)}
    thumbnail, caption = session.gallery("patches").thumbnails()[3]
    assert thumbnail.shape == (96, 96, 3)
    assert caption == "3"
    np.testing.assert_array_equal(thumbnail[::12, ::12], pictures[3].rgb())


def test_file_is_read_as_the_command_predict_reads_it(session: Session, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    picture = session.upload(tmp_path / "noise.png", "patches")
    explainer = session.collection.exhibit("patches").explainer
    assert picture.title == "noise.png"
    assert picture.truth is None
    assert torch.equal(picture.fitted(explainer.data), explainer.read(tmp_path / "noise.png"))


def test_file_that_is_no_image_is_refused_without_the_folder_of_the_server(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "poem.png").write_text("roses are red")
    with pytest.raises(DataError, match=r"poem\.png is not an image that can be read") as found:
        session.upload(tmp_path / "poem.png", "patches")
    assert str(tmp_path) not in str(found.value)


def test_broken_image_is_refused(session: Session, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(buffer, "JPEG")
    (tmp_path / "half.jpg").write_bytes(buffer.getvalue()[:200])
    with pytest.raises(DataError, match=r"half\.jpg is not an image"):
        session.upload(tmp_path / "half.jpg", "patches")


def test_hundred_megapixels_are_refused_by_their_header(session: Session, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="announces 10000 × 10000 pixels"):
        session.upload(announced(tmp_path / "huge.png", 10_000, 10_000), "patches")


def test_large_file_is_refused(tmp_path: Path, session: Session) -> None:
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(InputError, match="must not be larger than 10 MB"):
        session.upload(tmp_path / "large.png", "patches")


def test_file_that_is_gone_says_so_in_the_panel(session: Session, tmp_path: Path) -> None:
    panel = session.panel("patches", FilePicture(tmp_path / "gone.png", "gone.png"), CLEAR, Look())
    assert "upload it again" in panel.answer
    assert panel.solve is None


# what is done to it


def test_nothing_done_leaves_the_image(session: Session) -> None:
    pixels = sample(session).pixels
    assert torch.equal(CLEAR.apply(pixels), pixels)


def test_sliders_change_what_they_name(session: Session) -> None:
    pixels = sample(session).pixels
    spread = pixels.double().std()
    assert Distortion(fade=100).apply(pixels).double().std() < 0.1 * spread
    rough = (pixels[..., 1:].double() - pixels[..., :-1].double()).abs().mean()
    blurred = Distortion(blur=100).apply(pixels).double()
    assert (blurred[..., 1:] - blurred[..., :-1]).abs().mean() < 0.6 * rough
    change = [
        (Distortion(noise=n).apply(pixels).double() - pixels).abs().mean().item() for n in (10, 50, 100)
    ]
    assert change == sorted(change)
    assert change[0] > 0


@pytest.mark.parametrize("name", corruption_names())
def test_every_corruption_works_on_the_smallest_images(session: Session, name: str) -> None:
    pixels = sample(session, 3).pixels
    found = Distortion(corruption=name, severity=5).apply(pixels)
    expected = corrupt(np.ascontiguousarray(pixels.permute(0, 2, 3, 1).numpy()), name, 5, seed=0)
    np.testing.assert_array_equal(found.permute(0, 2, 3, 1).numpy(), expected)


@pytest.mark.parametrize("wrong", [{"noise": -1}, {"blur": 101}, {"severity": 6}])
def test_strength_outside_its_range_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(wrong))} must lie in"):
        Distortion(**wrong)  # type: ignore[arg-type]


# the panel


def test_panel_says_what_the_explainer_says(session: Session, runs: Path) -> None:
    picture = sample(session, 4)
    panel = session.panel("patches", picture, CLEAR, Look())
    found = Explainer(RunFolder.find("patches", runs)).explain(picture.pixels)
    assert f'class="said">{found.label}<' in panel.answer
    assert f"{100 * found.confidence:.1f} % sure" in panel.answer
    assert ("correct" in panel.answer) == (found.label == "4")
    assert panel.answer.count("<li>") == 5
    assert "exactly one equilibrium" in panel.answer
    assert panel.branches == ("branch 0", "branch 1")
    assert panel.focus.count("Grad-CAM of") == 3
    assert panel.focus.count("β of branch") == 2


def test_panel_of_each_kind_of_network(session: Session) -> None:
    picture = sample(session)
    plain = session.panel("plain", picture, CLEAR, Look())
    assert len(plain.branches) == 1
    assert "no β" in plain.focus
    scales = session.panel("scales", picture, CLEAR, Look(branch=1))
    assert "nothing is known" in scales.answer
    assert scales.solve is not None
    assert scales.solve.branch == 1
    assert "Energy above" not in scales.solve.settling
    layers = session.panel("layers", picture, CLEAR, Look())
    assert "no equilibrium" in layers.answer
    assert layers.solve is None


def test_panel_without_image_asks_for_one(session: Session) -> None:
    assert "Choose or upload" in session.panel("patches", None, CLEAR, Look()).answer


def test_unknown_network_is_refused_in_its_place(session: Session) -> None:
    assert "did you mean" in session.panel("pathces", sample(session), CLEAR, Look()).answer


def test_names_cannot_become_markup(session: Session, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>.png"
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    panel = session.panel("patches", FilePicture(tmp_path / "a.png", name), CLEAR, Look())
    assert "<img src=x" not in panel.answer
    assert "&lt;img src=x" in panel.answer


def test_distortion_reaches_the_network(session: Session) -> None:
    exhibit, picture = session.collection.exhibit("patches"), sample(session)
    noisy = Distortion(noise=80)
    clear, changed = exhibit.answer(picture, CLEAR), exhibit.answer(picture, noisy)
    assert not torch.equal(clear.image, changed.image)
    assert not torch.equal(clear.explanation.probabilities, changed.explanation.probabilities)


def test_answers_are_computed_once(session: Session) -> None:
    exhibit, picture = session.collection.exhibit("patches"), sample(session, 7)
    assert exhibit.answer(picture, CLEAR) is exhibit.answer(picture, CLEAR)
    assert exhibit.trace(picture, CLEAR, 1) is exhibit.trace(picture, CLEAR, 1)


# the solve


@pytest.mark.parametrize("kind", ["solver", "plain"])
def test_state_comes_to_rest(session: Session, kind: str) -> None:
    trace = session.collection.exhibit("patches").trace(sample(session), CLEAR, 0)
    ends = []
    for step in (1, steps_of(trace, kind)):  # type: ignore[arg-type]
        solve = session.solve("patches", sample(session), CLEAR, Look(0, kind, step))  # type: ignore[arg-type]
        assert solve is not None
        assert f"State after step {step}" in solve.settling
        assert f"After step {step} of {solve.steps}" in solve.settling
        way = trace.own if kind == "solver" else trace.plain
        ends.append(float(distance_map(*parts(trace, way.points[step - 1])).mean()))
    assert ends[1] < 0.5 * ends[0]


def parts(trace: object, point: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return part_of(point, trace, None), part_of(trace.equilibrium, trace, None)  # type: ignore[arg-type,attr-defined]


def test_step_beyond_the_end_is_the_last(session: Session) -> None:
    solve = session.solve("patches", sample(session), CLEAR, Look(9, "solver", 999))
    assert solve is not None
    assert (solve.branch, solve.step) == (1, solve.steps)


def test_part_of_a_state_of_several_scales(session: Session) -> None:
    exhibit = session.collection.exhibit("scales")
    trace = exhibit.trace(sample(session), CLEAR, 1)
    assert len(trace.shapes) == len(exhibit.branches) > 1
    whole = torch.cat([part_of(trace.equilibrium, trace, part).flatten() for part in exhibit.parts])
    assert torch.equal(whole, trace.equilibrium)


def test_mosaic_keeps_order_and_colours_of_the_equilibrium() -> None:
    end = torch.zeros(3, 2, 2, dtype=torch.float64)
    end[2] = 1.0
    end[0] = 0.5
    drawn = mosaic(end, end)
    assert drawn.shape == (2 * 2 + 1 if len(drawn) == 5 else 2, drawn.shape[1], 3)
    np.testing.assert_array_equal(drawn[:2, :2], coloured(np.ones((2, 2)), "cividis", 0.0, 1.0))
    half = mosaic(0.5 * end, end)
    np.testing.assert_array_equal(half[:2, :2], coloured(np.full((2, 2), 0.5), "cividis", 0.0, 1.0))


def test_chart_marks_the_step_and_leaves_out_what_has_no_logarithm() -> None:
    lines = [Line("plain", (1.0, 0.5, 0.25), False), Line("solver", (1.0, 0.01, -1e-18), True)]
    chart = step_chart("Energy", lines, 2, 1e-3)
    assert chart.count("<circle") == 5
    assert chart.count("here") == 1
    assert "After step 2 of 3: 0.010." in chart


# the collection


def test_collection_lists_named_then_finished_then_shipped(runs: Path) -> None:
    found = gathered([RunFolder.find("layers", runs)], str(runs))
    assert found.names[0] == "layers"
    assert set(found.names) == {"patches", "plain", "scales", "layers", *shipped_names()}


def test_newest_finished_run_is_the_default(tmp_path: Path, runs: Path) -> None:
    found = default_run(str(runs))
    assert found is not None
    assert found.name == "layers"
    empty = default_run(str(tmp_path))
    assert (None if empty is None else empty.name) == (
        "geq-digits" if "geq-digits" in shipped_names() else None
    )


def test_damaged_run_does_not_hide_the_others(runs: Path, tmp_path: Path) -> None:
    for name in ("good", "bad"):
        (tmp_path / name).symlink_to(runs / "plain") if name == "good" else (tmp_path / name).mkdir()
    (tmp_path / "bad" / "config.yaml").write_text("model: geq_tiny\n")
    (tmp_path / "bad" / "log.jsonl").write_text("{nonsense\n")
    assert [name for name in gathered([], str(tmp_path)).names if name not in shipped_names()] == ["good"]


def test_network_is_loaded_once(collection: Collection) -> None:
    assert collection.exhibit("plain") is collection.exhibit("plain")
    with pytest.raises(GeqError, match="did you mean 'plain'"):
        collection.exhibit("plian")


def test_networks_of_other_images_see_the_same_picture(
    session: Session, colour_run: tuple[RunFolder, Path]
) -> None:
    folder, root = colour_run
    both = Session(Collection({**session.collection.folders, "colour": folder}, str(root)))
    picture = sample(session, 5)
    fitted = picture.fitted(both.collection.exhibit("colour").explainer.data)
    assert tuple(fitted.shape) == (1, 3, 32, 32)
    panel = both.panel("colour", picture, CLEAR, Look())
    assert "wrong" not in panel.answer  # “5” is no class of CIFAR
    assert both.kept("colour", picture) == both.gallery("colour").pictures[0]
    assert both.kept("plain", picture) == picture
    given = FilePicture(root / "x.png", "x.png")
    assert both.kept("colour", given) is given


def test_missing_data_leave_the_gallery_empty_with_a_reason(
    session: Session, colour_run: tuple[RunFolder, Path], tmp_path: Path
) -> None:
    missing = Session(Collection({"colour": colour_run[0]}, str(tmp_path)))
    gallery = missing.gallery("colour")
    assert gallery.pictures == ()
    assert "upload one instead" in gallery.missing
    assert missing.start("colour") is None
