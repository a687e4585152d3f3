"""The master is killed; sentinels promote its replica."""

import contextlib

STAND = "sentinels"
LASTS = 0
MAY_LOSE = 500


@contextlib.contextmanager
def strike(stand):
    stand.kill_master()
    yield
