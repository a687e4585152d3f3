"""Replies of Redis arrive byte by byte."""

import contextlib

from single import Single

prepare = Single.through_gate


@contextlib.contextmanager
def strike(stand):
    stand.tell_gate("bytes")
    yield
    stand.tell_gate("delay", 0)
