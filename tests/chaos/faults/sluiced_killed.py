"""One of the servers is killed, and started again."""

import contextlib

KILLS_SERVERS = True


@contextlib.contextmanager
def strike(stand):
    stand.servers[0].kill()
    yield
    stand.servers[0].start()
