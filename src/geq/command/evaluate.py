"""``geq evaluate RUN``: measure a trained network again, on its own data or on other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from geq.command.argument_parser import (
    add_data,
    add_inference,
    add_json,
    chosen_data,
    chosen_inference,
    nested,
    parse,
)
from geq.command.class_table import class_accuracy, class_tables
from geq.command.terminal import console_for, new_table, print_json
from geq.data.dataset_options import IMAGE_FOLDER, check_dataset_name
from geq.number_format import percent
from geq.training.headline_metric import unit_of
from geq.training.photo_folder_options import is_folder, warn_of_changes

SUMMARY = """Measure the trained network of a run on a dataset.

It needs only the run's folder and the data, also on another machine. It prints the accuracy of each class
and the confusion matrix, and draws them as RUN/evaluation/NAME.png; of a network that restores images, PSNR
and SSIM."""

MEASURES = {
    "accuracy": "accuracy",
    "top5": "accuracy, top 5",
    "miou": "mIoU",
    "macc": "mAcc",
    "aacc": "aAcc",
    "psnr": "PSNR",
}
"""Figures of one task or the other, as they are written."""


def declare(parser: Any) -> None:
    parser.usage = "geq evaluate RUN [options]"
    parser.add_argument(
        "run", type=str, help="folder of a run, its name below --runs, or a name of 'geq weights'"
    )
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    add_data(parser)
    parser.add_argument("--split", type=str, default="test", help="test, val or train")
    parser.add_argument(
        "--batch_size",
        type=int | None,
        default=None,
        help="images per batch; affects the result only with a regulariser that compares samples",
    )
    add_inference(parser)
    add_json(parser)


def main(arguments: list[str]) -> int:
    asked = parse("evaluate", SUMMARY, arguments, declare)

    from geq.training.run_folder import RunFolder

    folder = RunFolder.find(asked.run, asked.runs)
    if asked.data is not None and not is_folder(asked.data):
        check_dataset_name(asked.data)

    from geq.model.network import Network
    from geq.training.device import limited_threads
    from geq.training.run_picture import keep_confusion
    from geq.training.segmentation_task import task_class
    from geq.training.setup import evaluation_loader, open_split

    model = Network.from_pretrained(folder.model)
    own = folder.options()
    options = chosen_inference(chosen_data(own, asked), asked)
    dataset = open_split(options, asked.split)
    if options.data in (own.data, IMAGE_FOLDER) and not nested(asked, "data_override"):
        folder.data().check_classes(dataset)
    batches = evaluation_loader(dataset, batch_size=asked.batch_size, statistics=folder.data().statistics)
    with limited_threads(options, model):
        result = task_class(model, dataset)(model, options).evaluate(batches)
    where = getattr(dataset, "origin", "") or options.data
    is_own = (options.data, options.data_override) == (own.data, own.data_override)
    name = asked.split if is_own else f"{Path(asked.data or options.data).name}-{asked.split}"
    title = f"{folder.name} on {where} ({asked.split})"
    values = {
        "run": folder.title,
        "data": where,
        "split": asked.split,
        **result.as_mapping(),
    }
    if result.confusion:
        values |= {
            "classes": dataset.classes,
            "class_accuracy": class_accuracy(result.confusion, dataset.classes),
            "confusion": result.confusion,
            "picture": keep_confusion(folder, name, result.confusion, dataset.classes, title),
        }
    if asked.json:
        print_json(values)
    else:
        show(values)
    if is_own and asked.split == "test":
        warn_of_changes(folder, dataset)
    return 0


def show(values: dict[str, Any]) -> None:
    table = new_table("measure", ">value", show_header=False)
    table.columns[0].style = "bold"
    table.add_row("images", f"{values['images']:,}")
    for name, label in MEASURES.items():
        if name in values:
            table.add_row(label, f"{values[name]:.2f} {unit_of(label)}")
    if "ssim" in values:
        table.add_row("SSIM", f"{values['ssim']:.4f}")
    table.add_row("loss", f"{values['loss']:.4f}")
    if "steps" in values:
        table.add_row("solver steps", f"{values['steps']:.2f}")
        table.add_row("worst residual", f"{values['residual']:.1e}")
        table.add_row("not converged", percent(100 * values["unconverged"]))
    console = console_for()
    console.print(f"{values['run']} on {values['data']} ({values['split']})", highlight=False, soft_wrap=True)
    console.print(table)
    if "class_iou" in values:
        classes = new_table("class", ">IoU")
        for name, share in values["class_iou"].items():
            classes.add_row(name, percent(share))
        console.print(classes)
    elif "confusion" in values:
        for part in class_tables(values["confusion"], values["classes"]):
            console.print(part)
    if values.get("picture") is not None:
        console.print(f"picture  {values['picture']}", highlight=False, soft_wrap=True, markup=False)
