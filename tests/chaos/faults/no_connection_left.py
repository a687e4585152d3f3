"""Redis closes the servers' connections and accepts no new connections (`maxclients`)."""

import contextlib

from resp import Redis


@contextlib.contextmanager
def strike(stand):
    redis = Redis(stand.socket)  # this connection stays
    with contextlib.closing(redis):
        _, most = redis("CONFIG", "GET", "maxclients")
        redis("CONFIG", "SET", "maxclients", 1)
        redis("CLIENT", "KILL", "TYPE", "normal")
        yield
        redis("CONFIG", "SET", "maxclients", most)
