"""The field `where` of a request: an SQL condition that costs no more than a look at every row.

The query engine has hundreds of functions, and some of them grow without bound: repeat('a', 1000000000) takes a
gigabyte. So a request may compare columns, and call only a few functions, whose values are no longer than their
arguments. (On the command line, a condition may be anything: it is the user's own machine.)
"""

from __future__ import annotations

import re
from typing import Any

from banyan.serve.refusal import INVALID, TOO_LONG, Refused, field
from banyan.tokenizer.rules import without_surrogates

LONGEST = 1000  # characters
FUNCTIONS = tuple("lower upper trim length starts_with ends_with contains abs round coalesce cast".split())
_BEFORE_BRACKET = {*FUNCTIONS, "and", "or", "not", "in", "like", "ilike", "between"}
_TOKENS = re.compile(
    r"""(?P<space>\s+)
    | (?P<text>'(?:[^'\\]|''|\\(?!'))*')
    | (?P<quoted>"[^"\\]*"|`[^`\\]*`)  # a column
    | (?P<word>[^\W\d]\w*)(?!['"`])    # E'a\'b' has other rules for what ends it
    | (?P<number>\d[\w.]*)(?!['"`])
    | (?P<bracket>\()
    | (?P<sign>[<>!]=|<>|[]=<>+*%),.[]|-(?!-)|/(?!\*))""",
    re.VERBOSE,
)


def condition(body: dict[str, Any]) -> str | None:
    """The condition, checked."""
    where = without_surrogates(field(body, "where", str, "").strip())
    if len(where) > LONGEST:
        raise Refused(TOO_LONG, f"where has {len(where):,} characters; the limit is {LONGEST:,}", "where")
    place, before = 0, ""
    while place < len(where):
        found = _TOKENS.match(where, place)
        if found is None:
            part = where[place : place + 20]
            raise Refused(INVALID, f"where has {part!r}, which is not closed, or not allowed in a request", "where")
        place = found.end()
        if found["bracket"] and before and before.lower() not in _BEFORE_BRACKET:
            known = ", ".join(FUNCTIONS)
            raise Refused(INVALID, f"where calls {before[:40]}; a request may call only {known}", "where")
        if not found["space"]:
            before = found["word"] or found["quoted"] or ""
    return where or None
