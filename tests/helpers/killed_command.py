"""A command that dies by SIGKILL just before its n-th file gets its name. Arguments: n, and those of `banyan`; or
`save MODEL OUT`, which saves a model as a program does."""

import sys

from tests.helpers.killed_training import die_before_call


def main(arguments: list[str]) -> int:
    from banyan import Banyan
    from banyan.commands import main

    if arguments[0] != "save":
        return main(arguments)
    Banyan.from_pretrained(arguments[1]).save_pretrained(arguments[2])
    return 0


if __name__ == "__main__":
    die_before_call("os.replace", int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
