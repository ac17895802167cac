"""BanyanError, the type of every error that a user can cause."""


class BanyanError(ValueError):
    """An error that a user can cause: one sentence that says what is wrong, where, and what to do."""


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error, for use in our own message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(":")
