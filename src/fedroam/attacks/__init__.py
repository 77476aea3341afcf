"""Attacks: who sends something else than it learnt, and what."""

from fedroam.attacks import model_poisoning as model_poisoning
from fedroam.attacks.attackers import Attack as Attack
from fedroam.attacks.attackers import NoAttack as NoAttack
from fedroam.attacks.attackers import Withheld as Withheld
from fedroam.attacks.attackers import attackers_of as attackers_of
from fedroam.attacks.sending import Trial as Trial
