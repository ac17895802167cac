"""The one error a user can cause: its message is a sentence that says what was wrong, where, and what to do."""


class BanyanError(ValueError):
    """An error that a user can cause: one sentence that says what is wrong, where, and what to do."""


def first_line(error: BaseException) -> str:
    """What an error of someone else's says, for use in a sentence of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(":")
