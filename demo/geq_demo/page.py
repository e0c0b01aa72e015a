"""The page: its controls, and what happens when one is moved."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder

from geq.data.corruption import SEVERITIES, corruption_names
from geq.errors import GeqError
from geq_demo.control_values import (
    NO_CORRUPTION,
    WAYS,
    read_distortion,
    read_look,
    read_name,
    read_place,
    read_upload,
)
from geq_demo.input_image import CLEAR, LARGEST_FILE, Distortion, Picture
from geq_demo.markup import EMPTY
from geq_demo.session import Look, Panel, Session, SolveView, complaint
from geq_demo.upload_limits import FOLDER

NOBODY = "– none –"
WAITING = 32
"""Questions that may wait for their turn; more are refused."""
SEVERITY = 3

INTRODUCTION = """<div class="geq"><h1>A network that converges</h1>
<p>Most networks push an image through a fixed number of layers. An <em>equilibrium model</em> repeats one
step until nothing changes any more, and answers from that resting state. There an <em>energy</em>
has reached its minimum, like a ball in a bowl. Pick an image, disturb it, and watch.</p></div>"""
SETTLE = """<div class="geq"><h3>How it converges</h3><p class="quiet">Drag the slider: the state
starts far away and comes to rest. From one line of the charts to the next is a factor of ten.</p></div>"""


def style() -> str:
    return (files("geq_demo") / "style.css").read_text(encoding="utf-8")


def theme() -> gr.themes.Base:
    """Fonts of the visitor's system: nothing is fetched from anywhere."""
    return gr.themes.Default(
        primary_hue="blue",
        neutral_hue="slate",
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    )


@dataclass(frozen=True)
class PanelParts:
    """The components of one network."""

    column: gr.Column
    model: gr.Dropdown
    answer: gr.HTML
    settle: gr.Column
    way: gr.Radio
    branch: gr.Dropdown
    step: gr.Slider
    settling: gr.HTML
    focus: gr.HTML

    @property
    def choices(self) -> list[Any]:
        return [self.model, self.way, self.branch]

    @property
    def outputs(self) -> list[Any]:
        return [
            self.column,
            self.answer,
            self.settle,
            self.branch,
            self.step,
            self.settling,
            self.focus,
        ]


@dataclass(frozen=True)
class Controls:
    """The components above the networks."""

    picture: gr.State
    gallery: gr.Gallery
    file: gr.File
    message: gr.HTML
    noise: gr.Slider
    blur: gr.Slider
    fade: gr.Slider
    corruption: gr.Dropdown
    severity: gr.Slider
    reset: gr.Button

    @property
    def distortion(self) -> list[Any]:
        return [self.noise, self.blur, self.fade, self.corruption, self.severity]


def build_page(session: Session, first: str, second: str | None = None) -> gr.Blocks:
    """The page, with one network or two side by side."""
    names = session.collection.names
    with gr.Blocks(
        title="geq: equilibrium models", analytics_enabled=False, delete_cache=(600, 3600)
    ) as page:
        gr.HTML(INTRODUCTION)
        controls = build_controls(session, first)
        with gr.Row():
            chosen = gr.Dropdown(names, value=first, label="Model", elem_id="model-a")
            beside = gr.Dropdown(
                [NOBODY, *names], value=second or NOBODY, label="Compare with", elem_id="model-b"
            )
        with gr.Row(equal_height=False):
            panels = (
                build_panel(session, "a", chosen, first, session.start(first)),
                build_panel(session, "b", beside, second, session.start(first)),
            )
        connect(session, controls, panels)
    page.queue(max_size=WAITING, default_concurrency_limit=1)
    return page


def build_controls(session: Session, first: str) -> Controls:
    gallery = session.gallery(first)
    picture = gr.State(session.start(first))
    with gr.Row(equal_height=False):
        with gr.Column(min_width=320):
            gr.HTML('<div class="geq"><h3>Pick an image</h3></div>')
            pictures = gr.Gallery(
                gallery.thumbnails(),
                format="png",
                show_label=False,
                container=False,
                columns=6,
                height="auto",
                object_fit="contain",
                allow_preview=False,
                interactive=False,
                buttons=[],
                elem_id="gallery",
            )
            file = gr.File(
                label=f"… or one of your own, up to {LARGEST_FILE // 2**20} MB", height=130, elem_id="file"
            )
            message = gr.HTML(complaint(gallery.missing) if gallery.missing else EMPTY, elem_id="message")
        with gr.Column(min_width=320):
            gr.HTML('<div class="geq"><h3>Disturb it</h3></div>')
            with gr.Group():
                noise = slider("Noise", "noise", 0, 100, 0)
                blur = slider("Blur", "blur", 0, 100, 0)
                fade = slider("Loss of contrast", "fade", 0, 100, 0)
                corruption = gr.Dropdown(
                    [(name.replace("_", " "), name) for name in (NO_CORRUPTION, *corruption_names())],
                    value=NO_CORRUPTION,
                    label="One of 19 everyday corruptions",
                    elem_id="corruption",
                )
                severity = slider("Its severity", "severity", 1, SEVERITIES[-1], SEVERITY)
            reset = gr.Button("Undo all of it", size="sm", elem_id="reset")
    return Controls(picture, pictures, file, message, noise, blur, fade, corruption, severity, reset)


def slider(label: str, name: str, low: int, high: int, value: int) -> gr.Slider:
    return gr.Slider(low, high, value, step=1, label=label, elem_id=name, buttons=[])


def build_panel(
    session: Session, letter: str, model: gr.Dropdown, name: str | None, picture: Picture | None
) -> PanelParts:
    """One network, with its answer about the first image in place from the start."""
    panel = Panel(EMPTY)
    if name is not None:
        panel = session.panel(name, picture, CLEAR, Look())
    with gr.Column(min_width=340, visible=name is not None) as column, gr.Row(equal_height=False):
        with gr.Column(min_width=330):
            answer = gr.HTML(panel.answer, elem_id=f"answer-{letter}")
            focus = gr.HTML(panel.focus, elem_id=f"focus-{letter}")
        with gr.Column(min_width=330, visible=panel.solve is not None) as settle:
            gr.HTML(SETTLE)
            with gr.Row():
                branch = gr.Dropdown(
                    branch_choices(panel),
                    value=0,
                    label="Branch",
                    visible=len(panel.branches) > 1,
                    min_width=120,
                    elem_id=f"branch-{letter}",
                )
                way = gr.Radio(
                    list(WAYS.items()),
                    value="solver",
                    label="Whose steps",
                    min_width=180,
                    elem_id=f"way-{letter}",
                )
            solve = panel.solve or SolveView(EMPTY, 0, 1, 1)
            step = slider("Step", f"step-{letter}", 1, max(solve.steps, 2), solve.step)
            settling = gr.HTML(solve.settling, elem_id=f"settling-{letter}")
    return PanelParts(column, model, answer, settle, way, branch, step, settling, focus)


def connect(session: Session, controls: Controls, panels: tuple[PanelParts, PanelParts]) -> None:
    """Say what each control changes."""
    quiet: dict[str, Any] = {
        "show_progress": "hidden",
        "api_visibility": "private",
        "concurrency_limit": 1,  # of all visitors together: each answer takes all of a processor
        "concurrency_id": "network",
    }
    # What is asked may be older than the last answer, and lie outside of the choices that came with it (fewer
    # steps, fewer branches). gradio would refuse it, in its own words; it is read and validated here, and the
    # session takes the nearest step and branch.
    asking: dict[str, Any] = {**quiet, "preprocess": False}
    asked = [controls.picture, *controls.distortion, *panels[0].choices, *panels[1].choices]
    shown = [*panels[0].outputs, *panels[1].outputs]

    def refresh(picture: Any, *values: Any) -> list[Any]:
        distortion, rest = read_distortion(values[:5]), values[5:]
        looks = [
            (read_name(model, "model"), read_look(way, branch)) for model, way, branch in (rest[:3], rest[3:])
        ]
        return [
            update
            for model, look in looks
            for update in panel_updates(session, model, picture, distortion, look)
        ]

    # Not gr.SelectData, which takes the event apart before anybody can validate it.
    def choose(model: Any, event: gr.EventData) -> tuple[Picture, str]:
        pictures = session.gallery(read_name(model, "model")).pictures
        return pictures[read_place(event._data, len(pictures))], EMPTY

    def take(given: Any, model: Any) -> tuple[Any, Any, Any]:
        try:
            path = read_upload(given, Path(get_upload_folder(), FOLDER))
            if path is None:
                return gr.skip(), gr.skip(), gr.skip()
            return session.upload(path, read_name(model, "model")), EMPTY, None
        except GeqError as problem:
            return gr.skip(), complaint(str(problem)), None

    def change(model: Any, picture: Any) -> tuple[Any, Any, Any]:
        gallery = session.gallery(read_name(model, "model"))
        missing = complaint(gallery.missing) if gallery.missing else EMPTY
        return session.kept(model, picture), gr.Gallery(gallery.thumbnails()), missing

    def clear() -> list[Any]:
        return [0, 0, 0, NO_CORRUPTION, SEVERITY]

    first = panels[0].model
    controls.gallery.select(choose, [first], [controls.picture, controls.message], **asking).then(
        refresh, asked, shown, **asking
    )
    controls.file.upload(
        take, [controls.file, first], [controls.picture, controls.message, controls.file], **asking
    ).then(refresh, asked, shown, **asking)
    first.input(
        change, [first, controls.picture], [controls.picture, controls.gallery, controls.message], **asking
    ).then(refresh, asked, shown, **asking)
    controls.reset.click(clear, None, controls.distortion, **quiet).then(refresh, asked, shown, **asking)
    moved = [control.input for control in (*controls.distortion, panels[1].model)]
    gr.on(moved, refresh, asked, shown, trigger_mode="always_last", **asking)
    for parts in panels:
        follow(session, controls, parts, asking)


def follow(session: Session, controls: Controls, parts: PanelParts, asking: dict[str, Any]) -> None:
    """The controls of one solve change that solve alone."""
    asked = [controls.picture, *controls.distortion, *parts.choices, parts.step]

    def solve(last: bool, values: tuple[Any, ...]) -> SolveView | None:
        picture, model, way, branch, step = values[0], *values[6:]
        look = read_look(way, branch, None if last else step)
        return session.solve(read_name(model, "model"), picture, read_distortion(values[1:6]), look)

    def turn(*values: Any) -> tuple[Any, Any]:
        found = solve(True, values)
        return (gr.skip(), gr.skip()) if found is None else (slider_of(found), found.settling)

    def move(*values: Any) -> Any:
        found = solve(False, values)
        return gr.skip() if found is None else found.settling

    gr.on([parts.way.input, parts.branch.input], turn, asked, [parts.step, parts.settling], **asking)
    # Also where a change moves it to the end, so that slider and picture agree whoever answers last.
    parts.step.change(move, asked, parts.settling, trigger_mode="always_last", **asking)


def slider_of(solve: SolveView | None) -> Any:
    # A slider with one place cannot be moved, but gradio draws none.
    return gr.skip() if solve is None else gr.Slider(maximum=max(solve.steps, 2), value=solve.step)


def branch_choices(panel: Panel) -> list[tuple[str, int]]:
    return [(name, number) for number, name in enumerate(panel.branches)] or [("none", 0)]


def panel_updates(
    session: Session, model: str, picture: Picture | None, distortion: Distortion, look: Look
) -> list[Any]:
    """One update for each of :attr:`PanelParts.outputs`."""
    if model == NOBODY:
        return [gr.Column(visible=False), *[gr.skip()] * 6]
    panel = session.panel(model, picture, distortion, look)
    return [
        gr.Column(visible=True),
        panel.answer,
        gr.Column(visible=panel.solve is not None),
        gr.Dropdown(
            branch_choices(panel),
            value=panel.solve.branch if panel.solve else 0,
            visible=len(panel.branches) > 1,
        ),
        slider_of(panel.solve),
        panel.solve.settling if panel.solve else EMPTY,
        panel.focus,
    ]
