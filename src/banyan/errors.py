"""The one error a user can cause: its message is a sentence that says what was wrong, where, and what to do."""


class BanyanError(ValueError):
    pass
