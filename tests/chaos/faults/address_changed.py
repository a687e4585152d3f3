"""Redis gets another address. For a while, its name still resolves to the old address."""

import contextlib


@contextlib.contextmanager
def strike(stand):
    stand.change_address()
    yield
    stand.point_name_to(stand.address)
