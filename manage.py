#!/usr/bin/env python
"""The command line: Django's, except that `up` supervises without loading Django at all."""

import os
import sys


def main() -> int:
    """Run one command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:2] == ["up"]:
        # Its environment does not exist before it has started the servers, and a small supervisor is a robust one.
        from config.up import main as up

        return up(sys.argv[2:])
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
