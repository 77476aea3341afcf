"""Decentralized federations in which each model that gets through counts by itself, or pairs average when they meet."""

from fedroam.federation.gossip import ad_psgd as ad_psgd
from fedroam.federation.gossip import cached as cached
from fedroam.federation.gossip import epidemic as epidemic
from fedroam.federation.gossip import gossip_learning as gossip_learning
from fedroam.federation.gossip import push_sum as push_sum
