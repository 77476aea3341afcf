"""Attacks on what is sent: sign flip, Gaussian, ALIE."""

from __future__ import annotations

import math

import numpy as np
import torch
from typing_extensions import override

from fedroam.attacks.attackers import Attackers, Trained
from fedroam.components import field, register
from fedroam.randomness import stream


@register("attack", "sign_flip", source="Li et al., AAAI 2019 (RSA), sign-flipping attack")
class SignFlip(Attackers):
    """Attackers send the opposite of their update: begun - scale (trained - begun)."""

    scale: float = field(
        1.0, "length of what is sent, in lengths of the true update", gt=0, allow_inf_nan=False
    )

    @override
    def sent(self, known: Trained) -> torch.Tensor:
        return known.begun - self.scale * (known.trained - known.begun)


@register("attack", "gaussian", source="Blanchard et al., NIPS 2017, Sec. 5 (Gaussian Byzantine workers)")
class Gaussian(Attackers):
    """Attackers send noise for an update: begun + N(0, std^2) in each parameter."""

    std: float = field(
        1.0, "standard deviation of the noise, in units of the parameters", gt=0, allow_inf_nan=False
    )

    @override
    def sent(self, known: Trained) -> torch.Tensor:
        draws = (stream(known.seed, "gaussian attack", known.round, int(client)) for client in known.clients)
        noise = np.stack([one.standard_normal(known.begun.shape[1]) for one in draws])
        return known.begun + torch.from_numpy((self.std * noise).astype(np.float32)).to(known.begun)


@register("attack", "alie", source='Baruch et al., NeurIPS 2019, "A Little Is Enough", Alg. 3')
class Alie(Attackers):
    """All attackers send one model, a little beside the mean, where defences see no outlier: mu + z sigma.

    mu and sigma are the mean and standard deviation of each parameter over the attackers' own trained models, as in the
    paper (with a single attacker sigma is 0), or over those of everybody. z is the paper's z_max: the largest z with
    Phi(z) < (n - m - s) / (n - m), of n clients of which m attack, where s = floor(n / 2 + 1) - m honest ones must lie
    farther from the mean than the lie does; 0 if that is negative. `z` sets another.
    """

    z: float | None = field(
        None, "distance from the mean in standard deviations; not set: z_max", allow_inf_nan=False
    )
    knows_honest: bool = field(
        False, "whether mean and deviation are of everybody's models, not of attackers' alone"
    )

    @override
    def sent(self, known: Trained) -> torch.Tensor:
        seen = torch.cat([known.trained, known.honest]) if self.knows_honest else known.trained
        values = seen.double()
        mean = values.mean(0)
        deviation = (values - mean).square().mean(0).sqrt()
        z = self.z
        if z is None:
            z = z_max(known.everybody, len(self.attackers(known.seed, known.everybody)))
        return (mean + z * deviation).to(known.trained.dtype).expand_as(known.trained)


def z_max(clients: int, attackers: int) -> float:
    """The largest z with Phi(z) < (n - m - s) / (n - m), s = floor(n / 2 + 1) - m; not below 0."""
    from scipy.special import ndtri

    honest, supporters = clients - attackers, max(math.floor(clients / 2 + 1) - attackers, 0)
    share = (honest - supporters) / honest
    # With a majority of attackers nobody needs to be won over, and any distance will do: the largest used is 1 of 10^4.
    return max(0.0, float(ndtri(min(share, 1 - 1e-4))))
