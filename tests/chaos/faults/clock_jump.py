"""The clock of Redis jumps an hour ahead, then back."""

import contextlib


@contextlib.contextmanager
def strike(stand):
    stand.set_clock(3600)
    yield
    stand.set_clock(0)
