"""Connections to Redis are cut in the middle of a reply, at random: in one of twenty replies."""

import contextlib

from single import Single

prepare = Single.through_gate


@contextlib.contextmanager
def strike(stand):
    stand.tell_gate("cut")
    yield
    stand.tell_gate("delay", 0)
