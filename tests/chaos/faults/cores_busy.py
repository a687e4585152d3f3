"""Each core is shared with two other busy programs."""

import running


def strike(_):
    return running.busy_cores()
