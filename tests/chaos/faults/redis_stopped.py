"""Redis is stopped (SIGSTOP), with all connections open."""

import running


def strike(stand):
    return running.stopped(stand.redis)
