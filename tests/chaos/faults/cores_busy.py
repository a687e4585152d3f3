"""Two other busy programs share each core."""

import running


def strike(_):
    return running.busy_cores()
