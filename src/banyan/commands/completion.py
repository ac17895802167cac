"""`banyan completion`."""

from __future__ import annotations

import argparse

from banyan.commands import _parser
from banyan.commands._parser import Parser

GROUP, ORDER = "publish", 9
PURPOSE = "print a script that completes commands, options and their values in bash, zsh or fish"
DESCRIPTION = """Where to put it:
  bash  banyan completion bash > ~/.local/share/bash-completion/completions/banyan
  zsh   banyan completion zsh > "${fpath[1]}/_banyan"
  fish  banyan completion fish > ~/.config/fish/completions/banyan.fish"""
EXAMPLES = ("banyan completion bash",)
SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_banyan() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" options=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
    if [ -n "$options" ]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
        return
    fi
    case "$word" in -*) ;; *) return ;; esac
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$options" -- "$word"))
}}
complete -o default -F _banyan banyan
"""
_ZSH = """\
#compdef banyan
_banyan() {{
    local -a commands options
    commands=(
{commands}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case "$words[2] $words[CURRENT-1]" in
{values}
    esac
    if (( $#options )); then
        compadd -- $options
        return
    fi
    case "$words[2]" in
{cases}
    esac
    if [[ "$words[CURRENT]" == -* ]]; then compadd -- $options; else _files; fi
}}
if [[ "$funcstack[1]" == _banyan ]]; then _banyan "$@"; else compdef _banyan banyan; fi
"""


def arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> None:
    print(script(options.shell), end="")


def script(shell: str) -> str:
    """The completion script for a shell."""
    commands = {name: _parser.purpose_of(name) for name in _parser.names()}
    parsers = {name: _parser.parser_of(name) for name in commands}
    own = {name: [option for option in parser.names if option.startswith("--")] for name, parser in parsers.items()}
    if shell == "fish":
        return "".join(_fish(name, commands[name], own[name], parser.values) for name, parser in parsers.items())
    # The word before a value is its option, or the command itself.
    values = {
        f'"{name} {option or name}")': few for name, parser in parsers.items() for option, few in parser.values.items()
    }
    cases = {f"{name})": options for name, options in own.items()}
    if shell == "zsh":
        listed = "\n".join(f"        '{name}:{_quoted(purpose)}'" for name, purpose in commands.items())
        return _ZSH.format(commands=listed, values=_cases(values, "({})"), cases=_cases(cases, "({})"))
    return _BASH.format(commands=" ".join(commands), values=_cases(values, '"{}"'), cases=_cases(cases, '"{}"'))


def _cases(words: dict[str, list[str]], form: str) -> str:
    return "\n".join(f"        {case} options={form.format(' '.join(some))} ;;" for case, some in words.items())


def _fish(name: str, purpose: str, options: list[str], values: dict[str, list[str]]) -> str:
    seen = f"complete -c banyan -n '__fish_seen_subcommand_from {name}'"
    lines = [f"complete -c banyan -n __fish_use_subcommand -f -a {name} -d '{_quoted(purpose)}'"]
    if "" in values:
        after = f"__fish_prev_arg_in {name}"
        lines.append(f"complete -c banyan -n '{after}' -f -a '{' '.join(values[''])}'")
    for option in options:
        few = f" -x -a '{' '.join(values[option])}'" if option in values else ""
        lines.append(f"{seen} -l {option[2:]}{few}")
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return text.replace("'", "’").replace(":", ",")
