"""In one of twenty replies, the connection to Redis is cut in the middle."""

import contextlib

from single import Single

prepare = Single.through_gate


@contextlib.contextmanager
def strike(stand):
    stand.tell_gate("cut")
    yield
    stand.tell_gate("delay", 0)
