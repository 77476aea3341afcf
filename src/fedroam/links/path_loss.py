"""Radio links whose rate follows from the power that arrives: path loss, shadowing, and what a standard makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import model_validator

from fedroam.components import field, register
from fedroam.links.link import BYTES, TimedLink
from fedroam.randomness import pair_normals

SPEED_OF_LIGHT = 299_792_458.0  # m/s
THERMAL_NOISE = -174.0  # dBm/Hz at 290 K

Standard = Literal["802.11n", "802.11ac", "lte_sidelink", "nr_sidelink", "ble", "shannon"]


@dataclass(frozen=True)
class RadioStandard:
    """What a standard says: frequency, MHz, and power, dBm; then either `steps`, least received powers (dBm, rising)
    with the rate from each on (Mbps), or Shannon's rate of a bandwidth (MHz) under a noise figure (dB), times
    `attenuation`, nothing below `least` and no more above `most` (dB of signal to noise).
    """

    frequency: float
    power: float
    steps: tuple[tuple[float, float], ...] = ()
    bandwidth: float = 0.0
    noise_figure: float = 0.0
    attenuation: float = 1.0
    least: float = -np.inf
    most: float = np.inf


RADIOS: dict[str, RadioStandard] = {
    # IEEE 802.11-2020, Table 19-23 (least input level, 20 MHz) and Table 19-27 (one stream, 800 ns guard interval).
    # Power: 100 mW, the limit of ETSI EN 300 328 in this band.
    "802.11n": RadioStandard(
        2437.0,
        20.0,
        (
            *((-82.0, 6.5), (-79.0, 13.0), (-77.0, 19.5), (-74.0, 26.0)),
            *((-70.0, 39.0), (-66.0, 52.0), (-65.0, 58.5), (-64.0, 65.0)),
        ),
    ),
    # IEEE 802.11-2020, Table 21-25 (80 MHz) and the table of VHT-MCSs for 80 MHz, one stream, 800 ns guard interval.
    # Power: 200 mW, the limit of ETSI EN 301 893 from 5150 to 5350 MHz.
    "802.11ac": RadioStandard(
        5210.0,
        23.0,
        (
            *((-76.0, 29.3), (-73.0, 58.5), (-71.0, 87.8), (-68.0, 117.0), (-64.0, 175.5)),
            *((-60.0, 234.0), (-59.0, 263.3), (-58.0, 292.5), (-53.0, 351.0), (-51.0, 390.0)),
        ),
    ),
    # 3GPP TR 36.885, Table A.1.4-1: 23 dBm, noise figure 9 dB, 10 MHz at 6 GHz. Rate: TR 36.942, Annex A.1, uplink,
    # whose waveform the sidelink has: 0.4 of Shannon's from -10 dB on, 2 bit/s/Hz at the most (0.4 log2(1 + s) = 2).
    "lte_sidelink": RadioStandard(
        5900.0,
        23.0,
        bandwidth=10.0,
        noise_figure=9.0,
        attenuation=0.4,
        least=-10.0,
        most=10 * float(np.log10(31)),
    ),
    # 3GPP TR 37.885, Table 6.1.1-1: 23 dBm, noise figure 9 dB, 20 MHz at 6 GHz. Rate: TR 38.803, Sec. 5.2.7, uplink:
    # 0.4 of Shannon's from -10 dB to 22 dB.
    "nr_sidelink": RadioStandard(
        5900.0, 23.0, bandwidth=20.0, noise_figure=9.0, attenuation=0.4, least=-10.0, most=22.0
    ),
    # Bluetooth Core 5.4, Vol. 6: least sensitivity, Part A, Sec. 4.1 (coded S=8, S=2, uncoded). Rate: 244 bytes of a
    # value in a packet of 251, its acknowledgement and two gaps of 150 us (Part B, Secs. 2 and 4.1.1): 17804, 5240 and,
    # with the 2 M PHY, 1392 us. Power: 0 dBm, that of many devices; the standard allows up to 20.
    "ble": RadioStandard(
        2440.0,
        0.0,
        ((-82.0, 8e-6 * 244 / 17804e-6), (-75.0, 8e-6 * 244 / 5240e-6), (-70.0, 8e-6 * 244 / 1392e-6)),
    ),
    "shannon": RadioStandard(2437.0, 20.0, bandwidth=20.0, noise_figure=7.0),
}


@register(
    "link",
    "path_loss",
    source="Rappaport, Wireless communications, 2nd ed., Eqs. 4.69 and 3.6; rates by IEEE 802.11, 3GPP and Bluetooth",
)
class PathLoss(TimedLink):
    """The rate follows from the power received: log-distance path loss with log-normal shadowing.

    Free space up to `reference` metres, beyond it the power falls by 10 `exponent` dB in each factor of ten of the
    distance, and by a normal number of dB that is drawn once for each pair, the same both ways and all the run.

    `802.11n`, `802.11ac` and `ble` have the rates of their modulations, each from the least power on at which every
    receiver of the standard must understand it (most do some dB earlier: `gain`). `lte_sidelink` and `nr_sidelink` have
    the rates by which 3GPP studies systems: a share of Shannon's. `shannon` has Shannon's itself, B log2(1 + S/N), a
    bound. Rates are those of the radio; headers, waiting for the air and answers take their part: `efficiency`.
    Below the least power nothing is sent. A transfer with an end that has no place (a server) has the rate `elsewhere`.
    """

    standard: Standard = field("802.11n", "radio: its frequency, power and rates")
    power: float | None = field(
        None, "power sent; not set: the standard's", unit="dBm", ge=-100, le=100, allow_inf_nan=False
    )
    frequency: float | None = field(
        None, "frequency; not set: the standard's", unit="MHz", gt=0, allow_inf_nan=False
    )
    exponent: float = field(3.0, "path loss exponent: 2 in free space, 3 to 5 in towns", ge=1, le=10)
    reference: float = field(1.0, "distance up to which space is free", unit="m", gt=0, allow_inf_nan=False)
    shadowing: float = field(4.0, "standard deviation of the shadowing of a pair", unit="dB", ge=0, le=40)
    gain: float = field(
        0.0,
        "both antennas' gains, and how much better receivers are than they must be",
        unit="dB",
        ge=-100,
        le=100,
    )
    bandwidth: float | None = field(
        None,
        "bandwidth, where rates are by Shannon; not set: the standard's",
        unit="MHz",
        gt=0,
        allow_inf_nan=False,
    )
    noise_figure: float | None = field(
        None, "noise figure, where rates are by Shannon; not set: the standard's", unit="dB", ge=0, le=100
    )
    steps: tuple[tuple[float, float], ...] | None = field(
        None,
        "rates of one's own: least received power (dBm) and rate (Mbps) of each; not set: the standard's",
    )
    efficiency: float = field(1.0, "share of the radio's rate that carries models", gt=0, le=1)
    elsewhere: float = field(
        10.0, "rate where an end has no place, such as a server", unit="Mbps", gt=0, allow_inf_nan=False
    )

    @model_validator(mode="after")
    def _fits(self) -> PathLoss:
        if self.steps is not None:
            powers, rates = [p for p, _ in self.steps], [r for _, r in self.steps]
            if not self.steps or powers != sorted(set(powers)) or rates != sorted(rates) or rates[0] <= 0:
                raise ValueError(
                    f"steps = {[list(step) for step in self.steps]}: allowed are pairs of dBm and Mbps, the dBm rising "
                    "and the Mbps above 0 and not falling"
                )
        by_steps = self.steps is not None or bool(RADIOS[self.standard].steps)
        for name, given in (("bandwidth", self.bandwidth), ("noise_figure", self.noise_figure)):
            if by_steps and given is not None:
                raise ValueError(
                    f"{name} has no meaning where rates have steps: leave it out, or set standard to lte_sidelink, "
                    "nr_sidelink or shannon, without steps"
                )
        return self

    def rate(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> np.ndarray:
        """By the power received, at its distance and through its pair's shadowing."""
        nowhere = np.isnan(distance)
        received = self.received(np.where(nowhere, self.reference, distance), seed, pair)
        return np.where(nowhere, self.elsewhere, self.efficiency * self.megabits(received)) * BYTES

    def received(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> np.ndarray:
        """Power received, float64 [transfers], dBm."""
        radio = RADIOS[self.standard]
        power = radio.power if self.power is None else self.power
        frequency = 1e6 * (radio.frequency if self.frequency is None else self.frequency)
        ratio = np.maximum(distance, self.reference) / self.reference
        near = np.minimum(distance, self.reference)
        # Free space up to the reference, but no nearer than a wavelength: the formula is one of the far field.
        wavelength = SPEED_OF_LIGHT / frequency
        free = 20 * np.log10(4 * np.pi * np.maximum(near, min(wavelength, self.reference)) / wavelength)
        loss = free + 10 * self.exponent * np.log10(ratio)
        return np.asarray(power + self.gain - loss - self.shadowing * self._normals(seed, pair))

    def megabits(self, received: np.ndarray) -> np.ndarray:
        """The radio's rate at received powers (float64 [transfers], dBm), float64 [transfers], Mbps."""
        radio = RADIOS[self.standard]
        steps = radio.steps if self.steps is None else self.steps
        if steps:
            powers, rates = np.array(steps).T
            return np.asarray(np.append(0.0, rates)[np.searchsorted(powers, received, side="right")])
        bandwidth = radio.bandwidth if self.bandwidth is None else self.bandwidth
        figure = radio.noise_figure if self.noise_figure is None else self.noise_figure
        signal = received - (THERMAL_NOISE + 10 * np.log10(1e6 * bandwidth) + figure)
        rate = radio.attenuation * bandwidth * np.log2(1 + 10 ** (np.minimum(signal, radio.most) / 10))
        return np.asarray(np.where(signal >= radio.least, rate, 0.0))

    def _normals(self, seed: int, pair: np.ndarray) -> np.ndarray | float:
        """A standard normal for each pair, whichever end is named first."""
        if not self.shadowing:
            return 0.0
        return pair_normals(seed, "shadowing", np.minimum(*pair.T), np.maximum(*pair.T))
