"""Redis gets another address; its name resolves to that only later."""

import contextlib


@contextlib.contextmanager
def strike(stand):
    stand.change_address()
    yield
    stand.point_name_to(stand.address)
