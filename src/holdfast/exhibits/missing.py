"""Blocks of a page that stay empty."""

from __future__ import annotations


class Missing(Exception):
    """There is nothing to show, and the message says why; a page prints it in place of the block."""
