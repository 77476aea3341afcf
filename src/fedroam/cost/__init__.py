"""Cost: what is sent and trained, in bytes, seconds on the air and joules, and what of it is wasted."""

from fedroam.cost import lte_wifi as lte_wifi
from fedroam.cost.account import COLUMNS as COLUMNS
from fedroam.cost.account import Account as Account
from fedroam.cost.account import charge as charge
from fedroam.cost.radio import Cost as Cost
from fedroam.cost.radio import DistanceDistribution as DistanceDistribution
from fedroam.cost.radio import Radio as Radio
from fedroam.cost.radio import full_exchange as full_exchange
from fedroam.cost.sample_passes import SamplePasses as SamplePasses
from fedroam.cost.tariff import Paid as Paid
from fedroam.cost.tariff import Tariff as Tariff
