"""The clock: rounds without a length, or seconds in which to train, meet and send."""

from fedroam.clock import kinds
from fedroam.clock.kinds import Clock

__all__ = ["Clock", "kinds"]
