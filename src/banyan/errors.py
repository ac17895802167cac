"""BanyanError, the type of every error that a user can cause, and the name that a user may have meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any


class BanyanError(ValueError):
    """An error that a user can cause: one sentence that says what is wrong, where, and what to do."""


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error, for use in our own message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(":")


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments of a function, without those that it collects."""
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def unknown_setting(name: str, settings: Iterable[str], arguments: Iterable[str] = ()) -> BanyanError:
    """An error that suggests a setting, or another argument of the same function, with a name like this one."""
    near = nearest(name, [*settings, *arguments])
    hint = f"did you mean {near}?" if near else f"the settings are {', '.join(settings)}"
    return BanyanError(f"there is no setting {name!r}; {hint}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most alike or, if there is only one, that has these words and more or fewer."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    akin = [other for other in known if _words(name) <= _words(other) or _words(other) <= _words(name)]
    return next(iter(close or (akin if len(akin) == 1 else [])), None)


def _words(name: str) -> set[str]:
    return set(filter(None, re.split("[-_]+", name)))
