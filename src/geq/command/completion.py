"""``geq completion SHELL``: a script by which a shell completes commands, options and names."""

from __future__ import annotations

from typing import Any, Literal

from geq.command.option import parse

SUMMARY = """Print a completion script for a shell: commands, options, models, datasets, experiments and runs.
The script contains all words, so the shell does not call Python.
Print it again after an update of geq.

bash:  geq completion bash > ~/.local/share/bash-completion/completions/geq
zsh:   geq completion zsh > DIR/_geq    with a DIR of $fpath, before compinit
fish:  geq completion fish > ~/.config/fish/completions/geq.fish"""


def declare(parser: Any) -> None:
    parser.usage = "geq completion bash|zsh|fish"
    parser.add_argument("shell", type=Literal["bash", "zsh", "fish"], help="shell of the script")


def main(arguments: list[str]) -> int:
    asked = parse("completion", SUMMARY, arguments, declare)
    from geq.cli import summaries
    from geq.command.shell import WRITERS
    from geq.command.syntax import whole_syntax

    print(WRITERS[asked.shell](summaries(), whole_syntax()), end="")
    return 0
