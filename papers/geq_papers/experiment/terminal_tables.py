"""Display of an experiment on a terminal: table of results, claims, and the list of all experiments."""

from __future__ import annotations

from typing import Any

from geq.command.terminal import new_table
from geq.number_format import around, rough_duration, signed
from geq_papers.experiment.claim import counted
from geq_papers.experiment.comparison import ExperimentOutcome
from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.experiment_registry import EXPERIMENTS
from geq_papers.experiment.plan import distinct_trainings
from geq_papers.experiment.run_time import expected_seconds


def table_of(found: ExperimentOutcome) -> Any:
    experiment, smoke = found.experiment, found.scale == "smoke"
    title = f"{experiment.source}: {experiment.title} (scale {found.scale})"
    if smoke:
        title = (
            f"{experiment.source}, smoke test: tiny networks on a few small images; the figures mean nothing"
        )
    table = new_table("arm", unbroken=("arm",), title=title, title_justify="left")
    table.caption, table.caption_justify = experiment.scale(found.scale).note, "left"
    for metric in experiment.metrics:
        if has_published(experiment, metric.key) and not smoke:
            table.add_column(f"{metric.label}\n{metric.unit}\npublished", justify="right")
        table.add_column(f"{metric.label}\n{metric.unit}\nobtained", justify="right")
    table.add_column("seeds", justify="right")
    for arm, cells in found.cells.items():
        row = [experiment.arms[arm].label]
        for metric in experiment.metrics:
            cell = cells[metric.key]
            if has_published(experiment, metric.key) and not smoke:
                row.append(" ".join(around(cell.published, cell.published_spread, metric.digits)).strip())
            ours = " ".join(around(cell.mean, cell.spread, metric.digits)).strip()
            row.append(ours + (" !" if cell.undefined else ""))
        seeds = max((len(cell.seeds) for cell in cells.values()), default=0)
        table.add_row(*row, str(seeds))
    return table


def has_published(experiment: Experiment, key: str) -> bool:
    return any(key in figures for figures in experiment.published.values())


def claims_of(found: ExperimentOutcome) -> Any:
    """Two lines for each claim; none after a smoke test, which decides nothing."""
    from rich.text import Text

    if found.scale == "smoke":
        return Text(f"no claim is judged by a smoke test; of {len(found.judgements)}, see --scale small")
    colours = {"holds": "bold green", "fails": "bold red"}
    text = Text()
    for judged in found.judgements:
        claim = judged.claim
        metric = found.experiment.metric(claim.metric)
        digits = metric.digits
        middle = (
            "" if judged.low is None else f" [{signed(judged.low, digits)} … {signed(judged.high, digits)}]"
        )
        text.append(f"{claim.text}{' (our question)' if claim.ours else ''}: ")
        text.append(judged.verdict, colours.get(judged.verdict, "bold"))
        text.append("".join(f" – {words}" for words in (judged.reason, judged.caveat) if words))
        text.append(
            f"\n  {metric.label}: published {signed(claim.published_difference, digits)}, "
            f"obtained {signed(judged.mean, digits)}{middle}, {counted(len(judged.seeds), 'seed')}\n"
        )
    return text


def listed() -> list[dict[str, Any]]:
    """The experiments for programs."""
    return [
        {
            "name": experiment.name,
            "source": experiment.source,
            "title": experiment.title,
            "arms": {name: arm.label for name, arm in experiment.arms.items()},
            "claims": [claim.text for claim in experiment.claims],
            "scales": {name: scale.note for name, scale in experiment.scales.items()},
        }
        for experiment in EXPERIMENTS.values()
    ]


def show_list(console: Any) -> None:
    table = new_table(
        *("name", "source", "what", ">arms", ">claims", ">one seed, small"),
        unbroken=("name", "source"),
        title=f"{len(EXPERIMENTS)} experiments",
        title_justify="left",
    )
    for experiment in EXPERIMENTS.values():
        time = "–"
        if "small" in experiment.scales:
            seconds = sum(map(expected_seconds, distinct_trainings(experiment, "small")))
            time = f"{rough_duration(seconds)} CPU"
        table.add_row(
            experiment.name,
            experiment.source,
            experiment.title,
            str(len(experiment.arms)),
            str(len(experiment.claims)),
            time,
        )
    console.print(table)
    console.print(
        "geq reproduce NAME [--scale smoke|small|paper]; 'all' is all of the papers', 'study' all of ours",
        highlight=False,
    )
