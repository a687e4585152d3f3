"""Two other programs want each core."""

import running


def strike(_):
    return running.busy_cores()
