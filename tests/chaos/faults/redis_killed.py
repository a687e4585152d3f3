"""Redis is killed, then restarted. `appendfsync always` keeps all writes that it has answered."""

import contextlib

import running
from servers import PATIENCE

KEEPS_ALL = ("--appendonly", "yes", "--appendfsync", "always")


@contextlib.contextmanager
def prepare(stand):
    stand.ask("CONFIG", "SET", "appendfsync", "always", "appendonly", "yes")
    running.wait_until(lambda: "aof_rewrite_in_progress:0" in stand.ask("INFO", "persistence"),
                       PATIENCE, "all writes are in the file")
    yield
    stand.ask("CONFIG", "SET", "appendonly", "no")


@contextlib.contextmanager
def strike(stand):
    stand.kill_redis()
    yield
    stand.start_redis(*KEEPS_ALL)
