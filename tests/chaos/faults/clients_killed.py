"""Redis closes all connections (`CLIENT KILL`), every 100 ms."""

import contextlib
import time

LASTS = 0


@contextlib.contextmanager
def strike(stand):
    for _ in range(8):
        stand.cut_connections()
        time.sleep(0.1)
    yield
