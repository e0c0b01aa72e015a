"""``geq reproduce NAME``: run a table or figure of the papers and test its claims."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from geq.command.argument_parser import add_json, add_quiet, parse
from geq.command.terminal import WARNING, console_for, print_json
from geq.errors import OptionError, unknown_name
from geq.number_format import rough_duration

if TYPE_CHECKING:
    from geq_papers.experiment.experiment import Experiment, ScaleName
    from geq_papers.experiment.launcher import Launcher
    from geq_papers.experiment.plan import Job

SUMMARY = """Run a table or figure of the papers: train every arm with every seed, show published and obtained
figures side by side, and test the claims by a 95 % interval over paired seeds. Without a name: list them.

After Ctrl-C or a kill the same command resumes: finished runs are not repeated and at most one epoch is
lost. Records are lines of JSON in RESULTS/SCALE/NAME.jsonl; runs are ordinary runs below RUNS.

On a cluster with SLURM, let an array share the work: '#SBATCH --array=1-16' and
'geq reproduce all --scale paper --yes --part $SLURM_ARRAY_TASK_ID/16' on a file system that all nodes see."""


def declare(parser: Any) -> None:
    parser.usage = "geq reproduce [NAME|all|study] [options]"
    parser.add_argument(
        "name",
        type=str | None,
        nargs="?",
        default=None,
        help="experiment, 'all' tables and figures of the papers, or our 'study'; without: list them",
    )
    parser.add_argument(
        "--scale",
        type=Literal["smoke", "small", "paper"],
        default="small",
        help="smoke: test run; small: a laptop, minutes per run; paper: the published setting",
    )
    parser.add_argument(
        "--seeds", type=int | None, default=None, help="number of seeds; the default is the scale's (1, 5, 5)"
    )
    parser.add_argument(
        "--only", type=str | None, default=None, help="arms to run, separated by commas; the default is all"
    )
    parser.add_argument("--results", type=str, default="results", help="folder of the records")
    parser.add_argument("--runs", type=str, default="runs", help="folder of the runs")
    parser.add_argument(
        "--workers",
        type=int | None,
        default=None,
        help="number of parallel runs; the default is one per core or GPU",
    )
    parser.add_argument(
        "--launcher", type=Literal["local", "ray"], default="local", help="this machine, or a Ray cluster"
    )
    parser.add_argument(
        "--part", type=str | None, default=None, help="I/N: run only every N-th training, from the I-th on"
    )
    parser.add_argument(
        "--address",
        type=str | None,
        default=None,
        help="address of the cluster; 'local' starts one, the default is $RAY_ADDRESS or one that runs here",
    )
    add_json(parser)
    add_quiet(parser)
    parser.add_argument("--yes", action="store_true", help="start without asking, even if it takes very long")


def main(arguments: list[str]) -> int:
    asked = parse("reproduce", SUMMARY, arguments, declare)
    console = console_for(asked.json, asked.quiet)
    if asked.name is None:
        from geq_papers.experiment.terminal_tables import listed, show_list

        if asked.json:
            print_json(listed())
        else:
            show_list(console)
        return 0
    if asked.seeds is not None and asked.seeds < 1:
        raise OptionError(f"seeds must be at least 1: got {asked.seeds}")
    experiments = chosen_experiments(asked.name, asked.scale)
    from geq_papers.experiment.plan import plan
    from geq_papers.experiment.progress import RunBars
    from geq_papers.experiment.runner import Interrupted, Runner

    arms = chosen_arms(asked.only, experiments, asked.scale)
    errors = console_for(on_stderr=asked.json or asked.quiet)
    left_out: dict[str, str] = {}
    jobs: list[Job] = []
    for experiment in list(experiments):
        planned = [
            job
            for job in plan(
                experiment, asked.scale, asked.seeds or experiment.scale(asked.scale).seeds, asked.runs
            )
            if arms is None or job.arm in arms
        ]
        problem = missing_data(planned)
        if problem is not None:
            warn(f"{experiment.name} is left out: {problem}", errors)
            experiments.remove(experiment)
            left_out[experiment.name] = problem
        else:
            jobs += planned
    launcher = chosen_launcher(asked.launcher, asked.workers, asked.scale, asked.address)
    bars = RunBars(asked.quiet)
    runner = Runner(launcher, Path(asked.results), Path(asked.runs) / "log", bars)
    try:
        missing = runner.missing(jobs)
        todo = of_part(missing, jobs, asked.part)
        if len(missing) < len(jobs):
            there = f"{len(jobs) - len(missing)} of {len(jobs)} records are there already"
            console.print(there, highlight=False)
        if todo:
            announce(todo, launcher, asked.scale, asked.yes, console)
            with bars.watching(todo):
                runner.run(todo)
    except Interrupted as stop:
        console.print(str(stop), highlight=False, soft_wrap=True)
        return 130
    finally:
        launcher.close()
    outcomes = [
        show_outcome(experiment, asked.scale, Path(asked.results), console, errors)
        for experiment in experiments
    ]
    for label, failure in runner.failures.items():
        warn(f"{label} failed: {failure}", errors)
    if runner.failures:
        console.print(f"what they printed is in {Path(asked.runs) / 'log'}", highlight=False)
    if asked.json:
        print_json({"experiments": outcomes, "left_out": left_out, "failures": runner.failures})
    complained = any(found["complaints"] for found in outcomes)
    return 1 if runner.failures or left_out or complained else 0


def warn(text: str, console: Any) -> None:
    from rich.text import Text

    console.print(Text(f"geq: {text}", style=WARNING), soft_wrap=True)


def chosen_experiments(name: str, scale: ScaleName) -> list[Experiment]:
    from geq_papers.experiment.experiment_registry import EXPERIMENTS, GROUPS, find_experiment

    if name in GROUPS:
        return [experiment for experiment in GROUPS[name].values() if scale in experiment.scales]
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, [*EXPERIMENTS, *GROUPS])
    find_experiment(name).scale(scale)
    return [find_experiment(name)]


def chosen_arms(only: str | None, experiments: list[Experiment], scale: ScaleName) -> set[str] | None:
    if only is None:
        return None
    known = {arm for experiment in experiments for arm in experiment.arms_at(scale)}
    arms = {word.strip() for word in only.split(",")}
    for arm in sorted(arms):
        if arm not in known:
            raise unknown_name(f"arm at scale {scale}", arm, known)
    return arms


def missing_data(jobs: list[Job]) -> str | None:
    """Return a message about data that must be fetched before an experiment can run."""
    from geq.errors import DataError
    from geq.training.setup import open_split

    for options in {job.options.data: job.options for job in jobs}.values():
        try:
            open_split(options, "test")
        except DataError as problem:
            command = f"geq data fetch {options.data}"
            return str(problem) if command in str(problem) else f"{problem}; see '{command}'"
    return None


def chosen_launcher(kind: str, workers: int | None, scale: ScaleName, address: str | None) -> Launcher:
    from geq_papers.experiment.launcher import LocalLauncher

    if kind == "ray":
        from geq_papers.experiment.ray_launcher import RayLauncher

        return RayLauncher(workers, gpu=scale == "paper", address=address)
    if address is not None:
        raise OptionError("--address names a Ray cluster: add --launcher ray, or leave it out")
    return LocalLauncher(workers, gpu_count() if scale == "paper" else 0)


def gpu_count() -> int:
    import torch

    return torch.cuda.device_count()


def of_part(todo: list[Job], jobs: list[Job], part: str | None) -> list[Job]:
    """The jobs of one part. All parts count the same list, so what is finished does not move the others."""
    if part is None:
        return todo
    from geq_papers.experiment.plan import grouped

    first, slash, number = part.partition("/")
    if not (slash and first.isdigit() and number.isdigit() and 1 <= int(first) <= int(number)):
        raise OptionError(f"part must be I/N with I from 1 to N, such as 3/16: got {part}")
    mine = {work.folder.path for work in grouped(jobs)[int(first) - 1 :: int(number)]}
    return [job for job in todo if job.folder.path in mine]


def announce(todo: list[Job], launcher: Launcher, scale: ScaleName, yes: bool, console: Any) -> None:
    """Say what will be done and how long it takes; refuse what takes too long unless it is wanted."""
    from geq_papers.experiment.plan import grouped
    from geq_papers.experiment.run_time import GPU_SPEEDUP, expected_work

    works = grouped(todo)
    seconds = sum(map(expected_work, works))
    on_gpu = launcher.gpus > 0
    what = f"{len(works)} runs for {len(todo)} records"
    if scale == "paper":
        one_gpu = rough_duration(seconds / GPU_SPEEDUP)
        if not on_gpu and not yes:
            raise OptionError(
                f"scale paper is meant for GPUs, and there is none here: {what} would take about "
                f"{rough_duration(seconds / launcher.slots)} on {launcher.slots} cores (on one GPU very "
                f"roughly {one_gpu}); add --yes to begin nevertheless, or take --scale small"
            )
        about = rough_duration(seconds / (GPU_SPEEDUP if on_gpu else 1) / launcher.slots)
    else:
        about = rough_duration(seconds / min(launcher.slots, len(works)))
    console.print(f"{what}, {launcher.slots} at a time; about {about}", highlight=False)


def show_outcome(
    experiment: Experiment, scale: ScaleName, results: Path, console: Any, errors: Any
) -> dict[str, Any]:
    """Print the table and the claims; returns them for programs, with what there was to complain of."""
    from geq_papers.experiment.comparison import outcome
    from geq_papers.experiment.plan import usable
    from geq_papers.experiment.record import read_records, record_path
    from geq_papers.experiment.terminal_tables import claims_of, table_of

    path = record_path(results, scale, experiment.name)
    records, complaints = read_records(path)
    used, outdated = usable(experiment, scale, records)
    found = outcome(experiment, scale, used)
    console.print()
    console.print(table_of(found))
    console.print(claims_of(found))
    for complaint in (*complaints, *outdated):
        warn(complaint, errors)
    console.print(f"records  {path}", highlight=False, soft_wrap=True)
    return {**found.as_mapping(), "records": str(path), "complaints": complaints}


def experiment_names() -> Iterable[str]:
    from geq_papers.experiment.experiment_registry import EXPERIMENTS, GROUPS

    return (*EXPERIMENTS, *GROUPS)


def arm_names() -> Iterable[str]:
    from geq_papers.experiment.experiment_registry import EXPERIMENTS

    return dict.fromkeys(arm for experiment in EXPERIMENTS.values() for arm in experiment.arms)


WORDS = {"name": experiment_names, "only": arm_names}
"""Option -> the words for it, for the completion of shells."""
