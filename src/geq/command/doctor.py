"""``geq doctor``: check the requirements of geq, with a hint for each problem."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from geq.command.argument_parser import add_json, add_quiet, parse
from geq.command.doctor_checks import Finding, as_mapping, examine
from geq.command.terminal import BAD, GOOD, WARNING, console_for, print_json
from geq.errors import MissingExtraError

SUMMARY = """Check versions, extras, devices, the compiler, data and the folders that geq writes to, with a
hint for each problem. The exit status is 1 if something that is needed does not work. With --gpu, also
solve on the GPU what is solved on the CPU, and compare."""

MARKS = {"ok": ("✓", GOOD), "note": ("·", WARNING), "problem": ("✗", BAD)}
"""State -> how it is marked."""


def declare(parser: Any) -> None:
    parser.add_argument("--gpu", action="store_true", help="also compare the GPU with the CPU")
    add_json(parser)
    add_quiet(parser)


def main(arguments: list[str]) -> int:
    as_json, quiet, gpu = asked_for(arguments)
    findings: list[Finding] = []
    say = None if quiet or as_json else printer()
    for finding in chain(examine(), with_gpu() if gpu else ()):
        if say is not None:
            say(finding, not findings or findings[-1].group != finding.group)
        findings.append(finding)
    problems = sum(finding.state == "problem" for finding in findings)
    if as_json:
        print_json(as_mapping(findings))
    elif not quiet:
        print(
            f"\n{problems} problem{'s' * (problems != 1)}"
            if problems
            else "\neverything that is needed works"
        )
    return 1 if problems else 0


def with_gpu() -> Iterator[Finding]:
    from geq.command.gpu_checks import compare_devices

    yield from compare_devices()


def asked_for(arguments: list[str]) -> tuple[bool, bool, bool]:
    """Return whether to print JSON, nothing, and the GPU too.

    This command must also work where the parser is not installed.
    """
    try:
        asked = parse("doctor", SUMMARY, arguments, declare)
    except MissingExtraError:
        return "--json" in arguments, "--quiet" in arguments, "--gpu" in arguments
    return asked.json, asked.quiet, asked.gpu


def plain(finding: Finding, first: bool) -> None:
    """Without rich."""
    if first:
        print(f"\n{finding.group}")
    print(f"  {MARKS[finding.state][0]} {finding.name:<16} {finding.value}")
    if finding.hint:
        print(f"    {'':<16} → {finding.hint}")


def printer() -> Any:
    """Return the function that prints a finding, in colours if possible."""
    try:
        console = console_for()
    except MissingExtraError:
        return plain
    from rich.text import Text

    def say(finding: Finding, first: bool) -> None:
        mark, colour = MARKS[finding.state]
        if first:
            console.print(Text(f"\n{finding.group}", style="bold"))
        text = Text("  ").append(mark, style=colour).append(f" {finding.name:<16} ", style="bold")
        console.print(text.append(finding.value), soft_wrap=True)
        if finding.hint:
            console.print(Text(f"    {'':<16} → {finding.hint}", style=colour), soft_wrap=True)

    return say
