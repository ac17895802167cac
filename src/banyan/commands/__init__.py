"""The `banyan` command line. Each module in this package is one command; the parser finds them by their file names.
Modules whose names start with an underscore are shared code.

A command module defines

    GROUP, ORDER        where `banyan --help` lists it: a key of _parser.GROUPS and the position in that group
    PURPOSE             one line for the list of commands
    DESCRIPTION         a sentence or more for the command's own help
    EXAMPLES            command lines; `banyan --help` shows the first
    arguments(parser)   adds the arguments
    run(options)        runs the command

Results go to standard output, messages to standard error. Command modules import heavy packages only in `run`, so
that help is instant.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from banyan.commands._parser import USAGE_ERROR, parse
from banyan.errors import BanyanError
from banyan.support import threads

__all__ = ["BROKEN_PIPE", "INTERRUPTED", "USAGE_ERROR", "main"]

INTERRUPTED, BROKEN_PIPE = 130, 141  # exit codes; 1 for every other error


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. BANYAN_DEBUG=1 shows the traceback of an error."""
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without └ still shows the words
    threads.let_torch_rest()
    try:
        try:
            options = parse(list(sys.argv[1:] if argv is None else argv))
            options.command(options)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt as error:
        return _failed(error, str(error) or "interrupted", INTERRUPTED)
    except SystemError as error:
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        return _failed(error, "interrupted", INTERRUPTED)  # how an interrupted compiled function reports it
    except BanyanError as error:
        return _failed(error, str(error), 1)
    except MemoryError as error:
        told = str(error) or "no more can be allocated"
        return _failed(error, f"not enough memory ({told}): is one line of the input very long?", 1)
    except OSError as error:
        return _failed(error, f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    return 0


def _failed(error: BaseException, message: str, code: int) -> int:
    if os.environ.get("BANYAN_DEBUG") == "1":
        raise error
    print(f"banyan: {message}", file=sys.stderr)
    return code
