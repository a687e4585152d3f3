"""Free ports for the servers that tests and benchmarks start."""

import contextlib
import random
import socket

_reservations = []


def free_port():
    """A free TCP port of 127.0.0.1 that no other test has taken: tests/support/redis_server.cc
    reserves ports in the same way. The port is below those that the kernel assigns to connections,
    so no connection takes it before the server listens."""
    while True:
        port = random.randrange(15_000, 32_000)
        reservation = socket.socket(socket.AF_UNIX)
        with socket.socket() as listener, contextlib.suppress(OSError):
            reservation.bind(f"\0sluice-test-port-{port}")  # until this process ends
            listener.bind(("127.0.0.1", port))
            _reservations.append(reservation)
            return port
