"""`python -m banyan` is `banyan`."""

import sys

from banyan.commands import main

if __name__ == "__main__":
    sys.exit(main())
