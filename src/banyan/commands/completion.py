"""`banyan completion`."""

from __future__ import annotations

import argparse

from banyan.commands import _parser
from banyan.commands._parser import Parser

GROUP, ORDER = "publish", 9
PURPOSE = "print a script that completes commands and options in bash, zsh or fish"
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
    own = {name: [option for option in _parser.parser_of(name).names if option.startswith("--")] for name in commands}
    if shell == "fish":
        return "".join(_fish(name, purpose, own[name]) for name, purpose in commands.items())
    if shell == "zsh":
        listed = "\n".join(f"        '{name}:{_quoted(purpose)}'" for name, purpose in commands.items())
        cases = "\n".join(f"        {name}) options=({' '.join(options)}) ;;" for name, options in own.items())
        return _ZSH.format(commands=listed, cases=cases)
    cases = "\n".join(f'        {name}) options="{" ".join(options)}" ;;' for name, options in own.items())
    return _BASH.format(commands=" ".join(commands), cases=cases)


def _fish(name: str, purpose: str, options: list[str]) -> str:
    first = f"complete -c banyan -n __fish_use_subcommand -f -a {name} -d '{_quoted(purpose)}'\n"
    rest = (f"complete -c banyan -n '__fish_seen_subcommand_from {name}' -l {option[2:]}\n" for option in options)
    return first + "".join(rest)


def _quoted(text: str) -> str:
    return text.replace("'", "’").replace(":", ",")
