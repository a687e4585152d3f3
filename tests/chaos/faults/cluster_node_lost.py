"""A master of a cluster is killed; its replica is promoted."""

import contextlib

STAND = "cluster"
LASTS = 0
MAY_LOSE = 500


@contextlib.contextmanager
def strike(stand):
    stand.kill_master()
    yield
