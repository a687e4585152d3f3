"""The round trip to Redis takes four times redis.timeout."""

import contextlib

from single import Single

prepare = Single.through_gate


@contextlib.contextmanager
def strike(stand):
    stand.tell_gate("delay", 4 * stand.timeout)
    yield
    stand.tell_gate("delay", 0)
