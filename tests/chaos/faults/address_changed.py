"""Redis gets another address. Its name resolves to the new address only later."""

import contextlib


@contextlib.contextmanager
def strike(stand):
    stand.change_address()
    yield
    stand.point_name_to(stand.address)
