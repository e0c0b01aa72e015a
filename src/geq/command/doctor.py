"""``geq doctor``: check the requirements of geq, with a hint for each problem."""

from __future__ import annotations

from typing import Any

from geq.command.argument_parser import add_json, add_quiet, parse
from geq.command.doctor_checks import Finding, as_mapping, examine
from geq.command.terminal import BAD, GOOD, WARNING, console_for, print_json
from geq.errors import MissingExtraError

SUMMARY = """Check versions, extras, devices, the compiler, data and the folders that geq writes to, with a
hint for each problem. The exit status is 1 if something that is needed does not work."""

MARKS = {"ok": ("✓", GOOD), "note": ("·", WARNING), "problem": ("✗", BAD)}
"""State -> how it is marked."""


def declare(parser: Any) -> None:
    add_json(parser)
    add_quiet(parser)


def main(arguments: list[str]) -> int:
    as_json, quiet = asked_for(arguments)
    findings: list[Finding] = []
    say = None if quiet or as_json else printer()
    for finding in examine():
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


def asked_for(arguments: list[str]) -> tuple[bool, bool]:
    """Read --json and --quiet by hand: this command must also work without the parser's package."""
    try:
        asked = parse("doctor", SUMMARY, arguments, declare)
    except MissingExtraError:
        return "--json" in arguments, "--quiet" in arguments
    return asked.json, asked.quiet


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
