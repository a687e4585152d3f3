"""Connections to Redis are cut, and the resolution of its name takes 1.5 s."""

import contextlib


@contextlib.contextmanager
def strike(stand):
    stand.point_name_to(stand.address, 1500)
    stand.cut_connections()
    yield
    stand.point_name_to(stand.address)
