"""Every kind of fedroam's own, by family, held against the family's Protocol by the type checker (`make types`).

A test holds the lists against the registry, so that a new class cannot be forgotten here.
"""

from __future__ import annotations

from typing import Final

from fedroam.access_points import AccessPoints, given, landmarks, synthetic
from fedroam.attacks import Attack, attackers, model_poisoning
from fedroam.clock import Clock
from fedroam.clock import kinds as clocks
from fedroam.contacts import Contacts, closest_approach, radius, recorded
from fedroam.cost import Radio, lte_wifi
from fedroam.data import DataSource, Partition, dirichlet, partition, shards
from fedroam.data.sources import cifar10, csv_table, digits, mnist, own, unsw_nb15
from fedroam.devices import Battery, Compute, Motion, battery, classes, compute, motion
from fedroam.devices.meters import Meter, meter, power_of, streams, sysfs, wall_csv
from fedroam.execution import Execution
from fedroam.execution import kinds as executions
from fedroam.federation import (
    Federation,
    asynchronous,
    decentralized,
    delayed,
    gossip,
    hierarchical,
    methods,
    server,
)
from fedroam.learning import Engine, auto, batched, cpu, objective, reference, training
from fedroam.learning.objective import Objective
from fedroam.learning.training import Training
from fedroam.links import Link, link, path_loss
from fedroam.links import lte_wifi as phone_links
from fedroam.mixing import (
    Aggregation,
    Mixing,
    aggregation,
    balance,
    clipped_gossip,
    contact_duration,
    coordinate_wise,
    krum,
    mobility_aware,
    weights,
)
from fedroam.mobility import Activity, Mobility, activity, grid, random_walk, random_waypoint, steered
from fedroam.models import ModelBuilder, convolutional, dense, resnet, torch_module
from fedroam.traces import availability, replay

DATA: Final[tuple[type[DataSource], ...]] = (
    cifar10.Cifar10,
    csv_table.Csv,
    digits.Digits,
    mnist.FashionMnist,
    mnist.Mnist,
    own.Arrays,
    own.InMemoryArrays,
    unsw_nb15.UnswNb15,
)
PARTITIONS: Final[tuple[type[Partition], ...]] = (
    dirichlet.ClientDirichlet,
    dirichlet.Dirichlet,
    partition.ByColumn,
    partition.IID,
    shards.Classes,
    shards.Shards,
)
MODELS: Final[tuple[type[ModelBuilder], ...]] = (
    convolutional.CNN1d,
    convolutional.Conv5,
    convolutional.LeNetGN,
    convolutional.MnistCNN,
    dense.MLP,
    dense.SoftmaxRegression,
    resnet.ResNet18,
    resnet.ResNet50,
    torch_module.TorchModule,
)
TRAININGS: Final[tuple[type[Training], ...]] = (training.SGD,)
OBJECTIVES: Final[tuple[type[Objective], ...]] = (objective.CrossEntropy,)
ENGINES: Final[tuple[type[Engine], ...]] = (auto.Auto, batched.Batched, cpu.engine.Cpu, reference.Reference)
MOBILITIES: Final[tuple[type[Mobility], ...]] = (
    grid.Random,
    grid.Static,
    random_walk.RandomWalk,
    random_waypoint.RandomWaypoint,
    replay.Replay,
    steered.grid.DAM,
    steered.grid.DCM,
    steered.rectangle.DAMContinuous,
    steered.rectangle.DCMContinuous,
    steered.spread.Spread,
    steered.spread.SpreadContinuous,
)
ACTIVITIES: Final[tuple[type[Activity], ...]] = (
    activity.Always,
    activity.OnOff,
    activity.Rate,
    availability.Availability,
)
ACCESS_POINTS: Final[tuple[type[AccessPoints], ...]] = (
    given.FromFile,
    landmarks.PointsOfInterest,
    synthetic.Grid,
    synthetic.NoAccessPoints,
    synthetic.Uniform,
)
CONTACTS: Final[tuple[type[Contacts], ...]] = (
    closest_approach.ClosestApproach,
    closest_approach.Sampled,
    radius.Radius,
    recorded.Recorded,
)
MIXINGS: Final[tuple[type[Mixing], ...]] = (
    contact_duration.ContactDuration,
    mobility_aware.MobilityAware,
    mobility_aware.PlainAverage,
    weights.DataSize,
    weights.Metropolis,
)
AGGREGATIONS: Final[tuple[type[Aggregation], ...]] = (
    aggregation.Average,
    balance.Balance,
    clipped_gossip.ClippedGossip,
    coordinate_wise.Median,
    coordinate_wise.TrimmedMean,
    krum.Krum,
    krum.MultiKrum,
)
ATTACKS: Final[tuple[type[Attack], ...]] = (
    attackers.LabelFlip,
    attackers.NoAttack,
    model_poisoning.Alie,
    model_poisoning.Gaussian,
    model_poisoning.SignFlip,
)
FEDERATIONS: Final[tuple[type[Federation], ...]] = (
    asynchronous.fedasync.FedAsync,
    asynchronous.fedbuff.FedBuff,
    asynchronous.hierarchies.HierarchicalFedAsync,
    asynchronous.hierarchies.HierarchicalFedBuff,
    decentralized.Decentralized,
    delayed.DelayedMohawk,
    gossip.ad_psgd.AdPsgd,
    gossip.cached.Cached,
    gossip.epidemic.Epidemic,
    gossip.gossip_learning.GossipLearning,
    gossip.push_sum.PushSum,
    hierarchical.Hierarchical,
    methods.HierFAVG,
    methods.MACFL,
    methods.Mohawk,
    server.baselines.Local,
    server.baselines.Majority,
    server.ditto.Ditto,
    server.fedavg.FedAvg,
    server.fedavgdbe.FedAvgDBE,
    server.fedfomo.FedFomo,
    server.fedgh.FedGH,
    server.fedproto.FedProto,
    server.fedprox.FedProx,
    server.gpfl.GPFL,
    server.mocfl.MoCFL,
    server.moon.Moon,
    server.scaffold.Scaffold,
)
RADIOS: Final[tuple[type[Radio], ...]] = (lte_wifi.LteWifi,)
LINKS: Final[tuple[type[Link], ...]] = (
    link.Fixed,
    link.InstantLink,
    path_loss.PathLoss,
    phone_links.LteWifiLink,
)
COMPUTES: Final[tuple[type[Compute], ...]] = (
    classes.Board,
    classes.Flops,
    classes.SecondsTable,
    compute.InstantCompute,
)
MOTIONS: Final[tuple[type[Motion], ...]] = (
    motion.FixedWing,
    motion.RotaryWing,
    motion.Vehicle,
    motion.Walking,
)
BATTERIES: Final[tuple[type[Battery], ...]] = (battery.Limited, battery.Mains)
CLOCKS: Final[tuple[type[Clock], ...]] = (clocks.Rounds, clocks.Seconds)

EXECUTIONS: Final[tuple[type[Execution], ...]] = (executions.Process, executions.Ray)
METERS: Final[tuple[type[Meter], ...]] = (
    meter.NoMeter,
    power_of.ModelledPower,
    streams.SerialLine,
    streams.SmartPower2,
    sysfs.Hwmon,
    sysfs.Rapl,
    wall_csv.WallMeter,
)
