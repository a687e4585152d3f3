"""Redis forgets its scripts (`SCRIPT FLUSH`), every 10 ms."""

import contextlib
import time

LASTS = 0


@contextlib.contextmanager
def strike(stand):
    for _ in range(80):
        stand.ask("SCRIPT", "FLUSH")
        time.sleep(0.01)
    yield
