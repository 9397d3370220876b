"""The simulator against boto3, whose reading of AWS's wire formats is not ours: `python -m unittest discover`."""

import atexit

from . import bed


@atexit.register
def end():
    if bed.SIMULATOR is not None:
        bed.SIMULATOR.end()
