"""One kind of link: its power at a throughput, and the throughput near by and far away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RadioLink:
    """Power P = alpha t + beta at throughput t (Huang et al., MobiSys 2012; Farcas et al., Table 1).

    alpha_up, alpha_down: mW/Mbps; beta: mW. up, down: throughput near by and far away, Mbps.
    """

    alpha_up: float
    alpha_down: float
    beta: float
    up: tuple[float, float]
    down: tuple[float, float]

    def sending(self, megabits: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Joules and seconds of sending, float64 [transfers] each. far: 0 near by, to 1 far away."""
        return _transfer(self.alpha_up, self.beta, self.up, megabits, far)

    def receiving(self, megabits: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Joules and seconds of receiving, as `sending`."""
        return _transfer(self.alpha_down, self.beta, self.down, megabits, far)


def _transfer(
    alpha: float, beta: float, rates: tuple[float, float], megabits: np.ndarray, far: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    near_by, far_away = rates
    throughput = near_by + far * (far_away - near_by)
    seconds = megabits / throughput
    return 1e-3 * (alpha * throughput + beta) * seconds, seconds
