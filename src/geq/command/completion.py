"""``geq completion SHELL``: scripts by which bash, zsh and fish complete commands, options and names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from geq.command.argument_parser import parse
from geq.command.completion_words import Syntax, Value

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
    from geq.command.completion_words import whole_syntax

    print(WRITERS[asked.shell](summaries(), whole_syntax()), end="")
    return 0


GENERAL = ("--help", "--version")


def quoted(text: str) -> str:
    """For bash, zsh and fish alike.

    >>> print(quoted("a run's name"))
    'a run’s name'
    """
    return "'" + text.replace("'", "’").replace("\\", "/") + "'"


def joined(words: Sequence[str]) -> str:
    return quoted(" ".join(words))


def actions(syntaxes: Sequence[Syntax]) -> dict[str, list[str]]:
    """Command -> its actions, for commands that have any."""
    found: dict[str, list[str]] = {}
    for syntax in syntaxes:
        command, space, action = syntax.name.partition(" ")
        if space:
            found.setdefault(command, []).append(action)
    return found


def cases(syntax: Syntax) -> tuple[list[tuple[str, Value]], list[tuple[str, Value]]]:
    """Patterns for the previous word and for the number of arguments so far, and what to propose for each."""
    values = [(o.flag, o.value) for o in syntax.options if o.value is not None and o.value.kind != "free"]
    last = len(syntax.arguments) - 1 if syntax.repeats else len(syntax.arguments)
    places = [(str(number) if number < last else "*", value) for number, value in enumerate(syntax.arguments)]
    return values, places


def proposal(value: Value) -> str:
    """Set the variables that the scripts below read; nothing where the shell shall propose files."""
    return {"words": f"list={joined(value.words)}", "run": "runs=1", "free": "files=1"}[value.kind]


def branches(syntaxes: Sequence[Syntax]) -> list[str]:
    """The part that bash and zsh have in common: what to propose for each command."""
    lines = ["    case $command in"]
    for syntax in syntaxes:
        values, places = cases(syntax)
        lines += [
            f"    {quoted(syntax.name)})",
            f"        flags={joined([option.flag for option in syntax.options])}",
            f"        valued={joined(syntax.valued)}",
            "        _geq_count",
            *(["        case $previous in"] if values else []),
            *(f"        {flag}) {proposal(value)} ;;" for flag, value in values),
            *(["        esac"] if values else []),
            *(["        case $number in"] if places else []),
            *(f"        {pattern}) [[ -n $value ]] || {proposal(value)} ;;" for pattern, value in places),
            *(["        esac"] if places else []),
            "        ;;",
        ]
    return [*lines, "    esac"]


RUNS = """\
_geq_runs() {
    # Names of the runs below the folder behind --runs.
    local folder=runs place i
    for ((i = 1; i < cursor; i++)); do
        [[ ${given[i]} == --runs ]] && folder=${given[i+1]}
        [[ ${given[i]} == --runs=* ]] && folder=${given[i]#--runs=}
    done
    for place in "$folder"/*/config.yaml; do
        [[ -e $place ]] || continue
        place=${place%/config.yaml}
        printf '%s\\n' "${place##*/}"
    done
}

_geq_count() {
    # Number of arguments before the cursor, and whether the cursor is at the value of an option.
    local i word
    number=0 value=
    for ((i = first; i < cursor; i++)); do
        word=${given[i]}
        case $word in
        --*=*) ;;
        -*) if [[ " $valued " == *" $word "* ]]; then
                ((i + 1 == cursor)) && value=1
                ((i += 1))
            fi ;;
        *) ((number += 1)) ;;
        esac
    done
    [[ $previous == --* && -n $joint ]] && value=1
}
"""
"""Functions for bash, and for zsh with arrays that begin at 0; names that zsh keeps for itself (``path``,
``options``, ``commands``) are avoided.
"""


def start(commands: Mapping[str, str], syntaxes: Sequence[Syntax]) -> list[str]:
    """Return the command, and the words for the current place."""
    lines = [
        "    if ((cursor == 1)); then",
        f"        list={joined([*commands, *GENERAL])}",
    ]
    for command, names in actions(syntaxes).items():
        lines += [
            f"    elif ((cursor == 2)) && [[ $command == {command} ]]; then",
            f"        list={joined(names)}",
        ]
    lines += ["    fi"]
    for command in actions(syntaxes):
        lines += [f'    [[ $command == {command} ]] && {{ command="{command} ${{given[2]}}"; first=3; }}']
    return lines


def bash(commands: Mapping[str, str], syntaxes: Sequence[Syntax]) -> str:
    lines = [
        "# Completion of geq for bash, written by 'geq completion bash'.",
        RUNS,
        "_geq() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} previous= command= flags= valued= list= runs= files=",
        "    local number=0 value= joint= first=2 cursor=0 i word",
        "    local -a given=()",
        "    # bash makes three words of --option=value.",
        "    for ((i = 0; i < COMP_CWORD; i++)); do",
        "        word=${COMP_WORDS[i]}",
        "        if [[ $word == = ]]; then",
        "            if ((i + 1 == COMP_CWORD)); then joint=1",
        "            else given[cursor-1]+==${COMP_WORDS[i+1]}; ((i += 1)); fi",
        "        else given[cursor]=$word; ((cursor += 1)); fi",
        "    done",
        "    [[ $current == = ]] && { current=; joint=1; }",
        "    command=${given[1]} previous=${given[cursor-1]}",
        *start(commands, syntaxes),
        *branches(syntaxes),
        "    [[ -n $runs ]] && list=$(_geq_runs)",
        "    if [[ $current == -* && -z $joint ]]; then",
        '        COMPREPLY=($(compgen -W "$flags" -- "$current"))',
        "    else",
        "        [[ -z $list$runs$files$value ]] && list=$flags",
        '        COMPREPLY=($(compgen -W "$list" -- "$current"))',
        "    fi",
        "}",
        "complete -o default -F _geq geq",
    ]
    return "\n".join(lines) + "\n"


def zsh(commands: Mapping[str, str], syntaxes: Sequence[Syntax]) -> str:
    described = [quoted(f"{name}:{summary}") for name, summary in commands.items()]
    lines = [
        "#compdef geq",
        "# Completion of geq for zsh, written by 'geq completion zsh'.",
        RUNS,
        "_geq() {",
        "    setopt local_options ksh_arrays",
        "    local previous= command= flags= valued= list= runs= files= number=0 value= joint= first=2",
        "    local cursor=$((CURRENT - 1))",
        '    local -a given; given=("${words[@]}")',
        "    if ((cursor == 1)); then",
        f"        local -a known; known=({' '.join(described)})",
        "        setopt no_ksh_arrays",
        "        _describe command known; return",
        "    fi",
        "    command=${given[1]} previous=${given[cursor-1]}",
        "    if [[ $PREFIX == --*=* ]]; then previous=${PREFIX%%=*} joint=1; fi",
        *start(commands, syntaxes),
        *branches(syntaxes),
        "    setopt no_ksh_arrays",
        "    [[ -n $joint ]] && compset -P '*='",
        "    if [[ $PREFIX == -* && -z $joint ]]; then compadd -- ${=flags}; return; fi",
        '    if [[ -n $runs ]]; then compadd -- ${(f)"$(setopt ksh_arrays; _geq_runs)"}; fi',
        "    if [[ -n $list ]]; then compadd -- ${=list}",
        "    elif [[ -n $runs$files$value ]]; then _files",
        "    else compadd -- ${=flags}; fi",
        "}",
        'if [[ $funcstack[1] == _geq ]]; then _geq "$@"; else compdef _geq geq; fi',
    ]
    return "\n".join(lines) + "\n"


def fish(commands: Mapping[str, str], syntaxes: Sequence[Syntax]) -> str:
    lines = [
        "# Completion of geq for fish, written by 'geq completion fish'.",
        "function __geq_runs",
        "    set -l folder runs",
        "    set -l given (commandline -opc)",
        "    set -l place (contains -i -- --runs $given); and set folder $given[(math $place + 1)]",
        "    for path in $folder/*/config.yaml",
        "        basename (dirname $path)",
        "    end",
        "end",
        "complete -c geq -n __fish_use_subcommand -f -l version -d 'print the version'",
        "complete -c geq -f -s h -l help -d 'explain it'",
    ]
    for name, summary in commands.items():
        lines.append(f"complete -c geq -n __fish_use_subcommand -f -a {name} -d {quoted(summary)}")
    for command, names in actions(syntaxes).items():
        none = f"__fish_seen_subcommand_from {command}; and not __fish_seen_subcommand_from {' '.join(names)}"
        lines.append(f"complete -c geq -n {quoted(none)} -f -a {joined(names)}")
    for syntax in syntaxes:
        seen = quoted("; and ".join(f"__fish_seen_subcommand_from {word}" for word in syntax.name.split()))
        for option in syntax.options:
            line = f"complete -c geq -n {seen} -l {option.flag[2:]}"
            if option.value is None:
                line += " -f"
            elif option.value.kind == "free":
                line += " -r"
            else:
                line += f" -x -a {fish_words(option.value)}"
            lines.append(f"{line} -d {quoted(option.summary)}")
        only = all(value.kind != "free" for value in syntax.arguments)
        for value in syntax.arguments:
            if value.kind != "free":
                lines.append(f"complete -c geq -n {seen} {'-f ' if only else ''}-a {fish_words(value)}")
    return "\n".join(lines) + "\n"


def fish_words(value: Value) -> str:
    return quoted("(__geq_runs)") if value.kind == "run" else joined(value.words)


WRITERS: dict[str, Callable[[Mapping[str, str], Sequence[Syntax]], str]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
