"""The command line: thin, one file per command."""

from holdfast.cli.entry import main

__all__ = ["main"]
