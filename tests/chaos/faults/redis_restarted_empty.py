"""Redis is killed, and started again with no data."""

import contextlib

FORGETS = True


@contextlib.contextmanager
def strike(stand):
    stand.kill_redis()
    yield
    stand.start_redis()
