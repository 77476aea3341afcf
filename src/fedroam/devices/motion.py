"""What moving costs: power at a speed, for who walks, drives, hovers or flies."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from fedroam.checks.answers import checked_numbers
from fedroam.components import Part, answer_of, field, ours, register
from fedroam.mobility import Paths


@runtime_checkable
class Motion(Protocol):
    """What moving costs the battery."""

    def power(self, speed: np.ndarray) -> np.ndarray:
        """Watts at constant speeds (float64 [any shape], m/s, from 0 on), of the same shape, finite, not negative."""


def power_of(motion: Motion, speed: np.ndarray) -> np.ndarray:
    """Watts at speeds (float64 [any number], m/s), as `Motion.power`; what one's own gives is held against that.

    Raises InputError where it is something else.
    """
    found = motion.power(speed)
    if ours(motion):
        return found
    with answer_of("motion", motion):
        return checked_numbers("power", found, len(speed), "speed", lambda k: f"a speed of {speed[k]:g} m/s")


@register("motion", "none")
class Walking(Part):
    """Moving costs the device nothing: it is carried."""

    def power(self, speed: np.ndarray) -> np.ndarray:
        """Zero."""
        return np.zeros(np.shape(speed))


@register(
    "motion",
    "vehicle",
    source="Fiori, Ahn & Rakha, Power-based electric vehicle energy consumption model, Applied Energy 168, 2016",
)
class Vehicle(Part):
    """An electric vehicle on a level road: rolling resistance and air drag, through drivetrain and motor.

    P(v) = (m g c_r / 1000 (c_1 3.6 v + c_2) + rho / 2 A C_D v^2) v / (eta_d eta_m) + P_aux, v in m/s. The defaults are
    those of the paper: a Nissan Leaf on good asphalt. Speeds change at corners of a way only, in no time: what
    accelerating takes and braking gives back is left out.
    """

    mass: float = field(1521.0, "mass", unit="kg", gt=0, allow_inf_nan=False)
    rolling: float = field(1.75, "rolling resistance: factor of the surface (c_r)", ge=0, allow_inf_nan=False)
    rolling_speed: float = field(
        0.0328, "rolling resistance: by speed (c_1)", unit="h/km", ge=0, allow_inf_nan=False
    )
    rolling_rest: float = field(4.575, "rolling resistance: at any speed (c_2)", ge=0, allow_inf_nan=False)
    drag: float = field(0.28, "drag coefficient (C_D)", ge=0, allow_inf_nan=False)
    area: float = field(2.3316, "frontal area (A)", unit="m2", ge=0, allow_inf_nan=False)
    air_density: float = field(1.2256, "density of the air (rho)", unit="kg/m3", ge=0, allow_inf_nan=False)
    drivetrain: float = field(0.92, "efficiency of the drivetrain (eta_d)", gt=0, le=1)
    motor: float = field(0.91, "efficiency of the motor (eta_m)", gt=0, le=1)
    auxiliary: float = field(
        700.0, "power of everything else, moving or not", unit="W", ge=0, allow_inf_nan=False
    )

    def power(self, speed: np.ndarray) -> np.ndarray:
        """Force at the wheels times speed, over the efficiencies, and the auxiliary power."""
        rolling = (
            self.mass * 9.8066 * self.rolling / 1000 * (self.rolling_speed * 3.6 * speed + self.rolling_rest)
        )
        drag = 0.5 * self.air_density * self.area * self.drag * speed**2
        return np.asarray((rolling + drag) * speed / (self.drivetrain * self.motor) + self.auxiliary)


@register(
    "motion",
    "rotary_wing",
    source="Zeng, Xu & Zhang, Energy minimization for wireless communication with rotary-wing UAV, "
    "IEEE Trans. Wireless Commun. 18(4), 2019: P(V) of Sec. II, and Table I",
)
class RotaryWing(Part):
    """A rotary-wing UAV in straight and level flight: blade profile, induced and parasite power.

    P(V) = P_0 (1 + 3 V^2 / U^2) + P_i (sqrt(1 + V^4 / (4 v_0^4)) - V^2 / (2 v_0^2))^(1/2) + d_0 rho s A V^3 / 2, with
    P_0 = delta / 8 rho s A U^3 and P_i = (1 + k) W^(3/2) / sqrt(2 rho A), and v_0 = sqrt(W / (2 rho A)). The defaults
    are those of the paper. It hovers at P_0 + P_i = 168.5 W.
    """

    weight: float = field(20.0, "weight of the UAV (W)", unit="N", gt=0, allow_inf_nan=False)
    air_density: float = field(1.225, "density of the air (rho)", unit="kg/m3", gt=0, allow_inf_nan=False)
    disc_area: float = field(0.503, "area of the rotor disc (A)", unit="m2", gt=0, allow_inf_nan=False)
    tip_speed: float = field(120.0, "speed of the blades' tips (U)", unit="m/s", gt=0, allow_inf_nan=False)
    solidity: float = field(0.05, "rotor solidity (s)", gt=0, le=1)
    profile_drag: float = field(0.012, "profile drag coefficient (delta)", ge=0, allow_inf_nan=False)
    induced_factor: float = field(0.1, "correction of the induced power (k)", ge=0, allow_inf_nan=False)
    fuselage_drag: float = field(0.6, "fuselage drag ratio (d_0)", ge=0, allow_inf_nan=False)

    def power(self, speed: np.ndarray) -> np.ndarray:
        """The three powers together."""
        square = np.square(speed)
        blade = self.profile_drag / 8 * self.air_density * self.solidity * self.disc_area * self.tip_speed**3
        induced = (
            (1 + self.induced_factor) * self.weight**1.5 / np.sqrt(2 * self.air_density * self.disc_area)
        )
        hover = self.weight / (2 * self.air_density * self.disc_area)  # v_0^2
        ratio = square / (2 * hover)
        # sqrt(1 + r^2) - r without the loss of digits at high speeds.
        sinks = 1 / (np.sqrt(1 + ratio**2) + ratio)
        parasite = 0.5 * self.fuselage_drag * self.air_density * self.solidity * self.disc_area * speed**3
        return np.asarray(blade * (1 + 3 * square / self.tip_speed**2) + induced * np.sqrt(sinks) + parasite)


@register(
    "motion",
    "fixed_wing",
    source="Zeng & Zhang, Energy-efficient UAV communication with trajectory optimization, "
    "IEEE Trans. Wireless Commun. 16(6), 2017: level flight, and steady circles",
)
class FixedWing(Part):
    """A fixed-wing UAV in level flight: P(V) = c_1 V^3 + c_2 / V, which is least at (c_2 / (3 c_1))^(1/4).

    It cannot stand in the air. Where its way is slower than `circle_speed` it flies circles of `circle_radius` at that
    speed on the way: P = (c_1 + c_2 / (g^2 r^2)) V^3 + c_2 / V. The defaults of c_1 and c_2 are those of the paper, and
    the circles are flown at its speed of least power. Corners are flown in no time.
    """

    c1: float = field(9.26e-4, "parasitic drag: c_1", unit="W s3/m3", gt=0, allow_inf_nan=False)
    c2: float = field(2250.0, "induced drag: c_2", unit="W m/s", gt=0, allow_inf_nan=False)
    circle_speed: float = field(30.0, "speed below which it circles", unit="m/s", gt=0, allow_inf_nan=False)
    circle_radius: float = field(100.0, "radius of the circles", unit="m", gt=0)

    def power(self, speed: np.ndarray) -> np.ndarray:
        """Straight flight at or above the speed of its circles, circles below."""
        fast = np.maximum(speed, self.circle_speed)
        turn = self.c2 / (9.8 * self.circle_radius) ** 2
        level = self.c1 * fast**3 + self.c2 / fast
        return np.asarray(np.where(speed < self.circle_speed, level + turn * fast**3, level))


def motion_power(motion: Motion, paths: Paths, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """The power of each leg of everybody's way in a round, and its duration: float64 [legs] each, W and s.

    seconds: the length of the round. Legs are those of `paths`, client by client: client i owns the legs
    first[i] - i to first[i + 1] - i - 1. A leg of no duration costs nothing.
    """
    own = np.ones(len(paths.time) - 1, dtype=bool)
    own[paths.first[1:-1] - 1] = False  # from one client's last point to the next one's first
    begin = np.flatnonzero(own)
    lasts = (paths.time[begin + 1] - paths.time[begin]) * seconds
    way = np.hypot(*(paths.point[begin + 1] - paths.point[begin]).T)
    speed = np.divide(way, lasts, out=np.zeros(len(way)), where=(lasts > 0) & np.isfinite(way))
    return power_of(motion, speed), lasts
