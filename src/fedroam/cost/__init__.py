"""Cost: what is sent and trained, in bytes, seconds on the air and joules, and what of it is wasted."""

from fedroam.cost import lte_wifi
from fedroam.cost.account import COLUMNS, Account, charge
from fedroam.cost.radio import Cost, DistanceDistribution, Radio, full_exchange
from fedroam.cost.sample_passes import SamplePasses
from fedroam.cost.tariff import Tariff

__all__ = [
    "COLUMNS",
    "Account",
    "Cost",
    "DistanceDistribution",
    "Radio",
    "SamplePasses",
    "Tariff",
    "charge",
    "full_exchange",
    "lte_wifi",
]
