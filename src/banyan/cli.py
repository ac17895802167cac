"""The command `banyan`: arguments in, one call, result out.

Results go to standard output, everything else to standard error. What a command needs is imported when it runs, so
that help is instant.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from banyan._version import __version__
from banyan.config import PRESETS, Config
from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.tree import Tree

USAGE_ERROR, INTERRUPTED, BROKEN_PIPE = 2, 130, 141  # exit codes, beside 1 for any other error


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. BANYAN_DEBUG=1 shows the traceback of an error."""
    try:
        options = _options(list(sys.argv[1:] if argv is None else argv))
        options.command(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt as error:
        return _failed(error, INTERRUPTED)
    except (BanyanError, OSError) as error:
        return _failed(error, 1)
    return 0


def _failed(error: BaseException, code: int) -> int:
    if os.environ.get("BANYAN_DEBUG") == "1":
        raise error
    if isinstance(error, OSError) and error.filename is not None:
        told = f"{error.filename}: {error.strerror}"
    else:
        told = str(error) or "interrupted"
    print(f"banyan: {told}", file=sys.stderr)
    return code


# --- Commands --------------------------------------------------------------------------------------------------------


def _train(options: argparse.Namespace) -> None:
    try:
        from banyan.training import Interrupted, train
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise BanyanError('training needs torch: pip install "banyan-embed[train]"') from None
    values = vars(options).copy()
    del values["command"]
    try:
        train(values.pop("corpus"), values.pop("out"), **values)
    except Interrupted as error:
        raise KeyboardInterrupt(str(error)) from None


def _encode(options: argparse.Namespace) -> None:
    from banyan.display import Display
    from banyan.encoding import encode_file

    display = Display(options.quiet)
    summary = encode_file(
        _model(options),
        options.input,
        options.out,
        normalize=options.normalize,
        column=options.column,
        resume=options.resume,
        overwrite=options.overwrite,
        display=display,
    )
    display.note(str(summary))


def _tree(options: argparse.Namespace) -> None:
    model = _model(options)
    form = _form(options)
    shown = _TREE_FORMS[form]
    trees = (tree for text in _texts(options) for tree in _trees(model, text, options.brackets))
    if form == "svg":
        trees = iter([_only(list(trees))])
    with _output(options.out) as write:
        for number, tree in enumerate(trees):
            write("\n" * (form == "text" and number > 0) + shown(tree))


def _trees(model: Banyan, text: str, brackets: bool) -> list[Tree]:
    return model.parse_brackets(text) if brackets else [model.parse(text)]


def _only(trees: list[Tree]) -> Tree:
    if len(trees) != 1:
        raise BanyanError(f"an SVG shows one tree, not {len(trees)}: give one text")
    return trees[0]


_TREE_FORMS: dict[str, Callable[[Tree], str]] = {
    "text": str,
    "brackets": lambda tree: tree.to_brackets(),
    "json": lambda tree: tree.to_json(),
    "svg": lambda tree: tree.to_svg(),
}


def _similar(options: argparse.Namespace) -> None:
    if options.inside is None:
        if len(options.text) != 2:
            options.parser.error(f"give two texts to compare, or one and --in FILE; there are {len(options.text)} texts")
        print(f"{_model(options).similarity(*options.text):.4f}")
        return
    if len(options.text) != 1:
        options.parser.error(f"give one text to look for in {options.inside}; there are {len(options.text)}")
    from banyan.encoding import most_similar
    from banyan.svg import visible

    for hit in most_similar(_model(options), options.text[0], options.inside, options.k, column=options.column):
        print(f"{hit.score:.4f}\t{hit.row}\t{visible(hit.text)}")


def _explain(options: argparse.Namespace) -> None:
    explanation = _model(options).explain(options.a, options.b)
    form = _form(options)
    with _output(options.out) as write:
        if form == "text":
            color = options.out is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
            write(explanation.to_text(color=color))
        else:
            write(explanation.to_svg() if form == "svg" else explanation.to_json())


def _info(options: argparse.Namespace) -> None:
    about = _about(_model(options), Path(options.model))
    if options.json:
        print(json.dumps(about, indent=2, ensure_ascii=False))
        return
    for title, values in about.items():
        if isinstance(values, dict):
            print(f"\n{title}")
            width = max(map(len, values))
            print("\n".join(f"  {name:{width}}  {_shown(value)}" for name, value in values.items()))
        elif values is not None:
            print(f"{title}: {_shown(values)}")


def _demo(options: argparse.Namespace) -> None:
    from banyan.demo import run_demo

    run_demo(options.out)


def _model(options: argparse.Namespace) -> Banyan:
    from banyan.encoder import Banyan

    return Banyan.from_pretrained(options.model)
