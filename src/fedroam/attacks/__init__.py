"""Attacks: who sends something else than it learnt, and what."""

from fedroam.attacks import model_poisoning
from fedroam.attacks.attackers import Attack, NoAttack, Withheld
from fedroam.attacks.sending import Trial

__all__ = ["Attack", "NoAttack", "Trial", "Withheld", "model_poisoning"]
