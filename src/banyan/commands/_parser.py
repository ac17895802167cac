"""Find the commands and parse the command line. Running a command imports no other command."""

from __future__ import annotations

import argparse
import itertools
import pkgutil
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from banyan._version import __version__
from banyan.errors import nearest

USAGE_ERROR = 2  # exit code
GROUPS = {
    "train": "train and evaluate",
    "encode": "encode and compare",
    "search": "search a collection",
    "publish": "serve and share",
}


def names() -> list[str]:
    """The names of all commands, sorted."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse a command line. `options.command(options)` runs the command; `options.parser` is its parser."""
    known = names()
    if not argv or argv[0] not in known:
        _parse_without_command(argv, known)
    name, *rest = argv
    parser = parser_of(name)
    parser.given = rest
    parser.refuse_unknown(rest)
    options, left = parser.parse_known_args(rest)
    if left:
        parser.error("; ".join(filter(None, [f"unrecognized arguments: {' '.join(left)}", parser.surplus])))
    return options


def _parse_without_command(argv: list[str], known: list[str]) -> NoReturn:
    parser = _help()
    if not argv:
        parser.print_help(sys.stderr)
        raise SystemExit(USAGE_ERROR)
    if not argv[0].startswith("-"):
        parser.refuse(f"there is no command {argv[0]}", argv[0], known)
    parser.refuse_unknown(argv)
    parser.parse_args(argv)  # --help and --version exit here
    parser.error("COMMAND is missing")


def _few(action: argparse.Action) -> list[str]:
    """The values that an argument can have: its choices, or the names in its place in the help (a|b)."""
    named = action.metavar if isinstance(action.metavar, str) and "|" in action.metavar else ""
    return [str(choice) for choice in action.choices] if action.choices else named.split("|") if named else []


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and suggest the nearest known name."""

    given: list[str]  # the arguments to parse
    renamed: dict[str, str]  # options of earlier versions: their present names
    dropped: dict[str, str]  # options of earlier versions that are gone: why
    surplus: str  # what to do with arguments that have no place
    offered: dict[str, list[str]]  # values of options that the parser does not check, for shells to complete

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **options)
        self.renamed, self.dropped, self.offered, self.surplus = {}, {}, {}, ""

    @property
    def names(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings]

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of each option that has few of them; those of the first argument under an empty name."""
        first = [action for action in self._actions if not action.option_strings][:1]
        options = [action for action in self._actions if action.option_strings]
        found = {name: _few(action) for action in first + options for name in action.option_strings or [""]}
        return {name: few for name, few in (found | self.offered).items() if few}

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def refuse(self, problem: str, name: str, known: Iterable[str]) -> NoReturn:
        near = nearest(name, known)
        self.error(f"{problem}; did you mean {near}?" if near else problem)

    def refuse_unknown(self, arguments: list[str]) -> None:
        for argument in itertools.takewhile(lambda argument: argument != "--", arguments):
            name = argument.partition("=")[0]
            if name in self.renamed:
                self.error(f"{name} is now called {self.renamed[name]}")
            if name in self.dropped:
                self.error(f"{name} is gone: {self.dropped[name]}")
            if name.startswith("--") and " " not in name and name not in self.names:
                self.refuse(f"there is no option {name}", name, self.names)

    def refuse_given(self, options: argparse.Namespace, settings: Iterable[str], where: str) -> None:
        """Refuse options for these settings unless they are as by default. where: what they are for."""
        for action in self._actions:
            if action.dest in settings and getattr(options, action.dest, action.default) != action.default:
                self.error(f"{action.option_strings[0]} is for {where}")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def parser_of(name: str) -> Parser:
    """The parser for one command."""
    command = _module(name)
    about = f"{command.PURPOSE[0].upper()}{command.PURPOSE[1:]}.\n{command.DESCRIPTION}"
    own_help = {"conflict_handler": "resolve"}  # a command may replace --help
    parser = Parser(prog=f"banyan {name}", description=about, epilog=_examples(command.EXAMPLES), **own_help)
    parser.set_defaults(command=command.run, parser=parser)
    command.arguments(parser)
    return parser


def purpose_of(name: str) -> str:
    """What a command does, in a few words."""
    return str(_module(name).PURPOSE)


def _module(name: str) -> Any:
    return import_module(f"banyan.commands.{name}")


def _help() -> Parser:
    """The parser for `banyan` without a command: --help and --version."""
    commands = {name: _module(name) for name in names()}
    width = max(map(len, commands))
    lines = ["Train sentence embeddings on your own text, encode and search with them, and inspect their trees."]
    examples = []
    for group, title in GROUPS.items():
        lines += ["", f"{title}:"]
        listed = [(command.ORDER, name, command) for name, command in commands.items() if group == command.GROUP]
        for _, name, command in sorted(listed, key=lambda entry: entry[:2]):
            lines.append(f"  {name:{width}}  {command.PURPOSE}")
            examples.append(command.EXAMPLES[0])
    usage = "banyan [-h] [--version] COMMAND ..."
    parser = Parser(prog="banyan", usage=usage, description="\n".join(lines), epilog=_examples(examples))
    parser.add_argument("--version", action="version", version=f"banyan {__version__}")
    return parser


def _examples(lines: Iterable[str]) -> str:
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])
