"""Redis has no memory left and refuses to write (`maxmemory`)."""

import contextlib


@contextlib.contextmanager
def strike(stand):
    stand.ask("CONFIG", "SET", "maxmemory", 1)
    yield
    stand.ask("CONFIG", "SET", "maxmemory", 0)
