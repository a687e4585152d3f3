"""Up to 100 slots with keys are moved from one master to another while they are in use."""

import contextlib

from resp import Redis

STAND = "cluster"
LASTS = 0


def slots_in_use(port):
    redis = Redis(port)
    with contextlib.closing(redis):
        keys = redis("KEYS", "*")
        return sorted({redis("CLUSTER", "KEYSLOT", key) for key in keys})[:100]


@contextlib.contextmanager
def strike(stand):
    source, target = stand.masters()[:2]
    for slot in slots_in_use(stand.ports[source]):
        stand.move_slot(slot, source, target)
    yield
