"""The parts of an experiment, each as its family's Protocol; and fedroam's own kinds, held against these."""

# mypy: disable-error-code="type-abstract"
# Protocols are handed on as values below: parts are looked at through them, and none is ever made.

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from typing_extensions import get_protocol_members

from fedroam.access_points import AccessPoints, given, landmarks, synthetic
from fedroam.components import Part
from fedroam.contacts import Contacts, closest_approach, radius
from fedroam.cost import Radio, lte_wifi
from fedroam.data import DataSource, Partition, dirichlet, partition, shards
from fedroam.data.sources import cifar10, csv_table, digits, mnist, own, unsw_nb15
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation import Federation, decentralized, hierarchical, methods, server
from fedroam.learning import Engine, cpu, objective, reference, training
from fedroam.learning.objective import Objective
from fedroam.learning.training import Training
from fedroam.mixing import Mixing, mobility_aware, weights
from fedroam.mobility import Activity, Mobility, activity, grid, random_walk, steered
from fedroam.models import ModelBuilder, convolutional, dense, resnet, torch_module
from fedroam.traces import availability, replay

P = TypeVar("P")


@dataclass(frozen=True)
class Parts:
    """The parts of an experiment, one of each family."""

    data: DataSource
    partition: Partition
    model: ModelBuilder
    training: Training
    objective: Objective
    engine: Engine
    mobility: Mobility
    activity: Activity
    access_points: AccessPoints
    contacts: Contacts
    mixing: Mixing
    federation: Federation
    radio: Radio

    @classmethod
    def of(cls, experiment: Experiment) -> Parts:
        """Those of an experiment. Raises InputError where one lacks what is asked of its family."""
        return cls(
            data=_as(DataSource, experiment.data),
            partition=_as(Partition, experiment.partition),
            model=_as(ModelBuilder, experiment.model),
            training=_as(Training, experiment.training),
            objective=_as(Objective, experiment.objective),
            engine=_as(Engine, experiment.engine),
            mobility=_as(Mobility, experiment.mobility),
            activity=_as(Activity, experiment.activity),
            access_points=_as(AccessPoints, experiment.access_points),
            contacts=_as(Contacts, experiment.contacts),
            mixing=_as(Mixing, experiment.mixing),
            federation=_as(Federation, experiment.federation),
            radio=_as(Radio, experiment.radio),
        )


def _as(protocol: type[P], part: Part) -> P:
    """`part`, known to have all that the Protocol names."""
    if not isinstance(part, protocol):
        missing = ", ".join(sorted(get_protocol_members(protocol) - set(dir(part))))
        raise InputError(f"{part.family} {part.kind!r} ({type(part).__name__}) lacks {missing}")
    return part


# Every kind of fedroam's own, by family. The type checker holds each class against its Protocol; a test holds the lists
# against the registry.
DATA: Final[tuple[type[DataSource], ...]] = (
    cifar10.Cifar10,
    csv_table.Csv,
    digits.Digits,
    mnist.FashionMnist,
    mnist.Mnist,
    own.Arrays,
    own.Memory,
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
ENGINES: Final[tuple[type[Engine], ...]] = (cpu.engine.Auto, cpu.engine.Cpu, reference.Reference)
MOBILITIES: Final[tuple[type[Mobility], ...]] = (
    grid.Random,
    grid.Static,
    random_walk.RandomWalk,
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
)
MIXINGS: Final[tuple[type[Mixing], ...]] = (
    mobility_aware.MobilityAware,
    mobility_aware.PlainAverage,
    weights.DataSize,
    weights.Metropolis,
)
FEDERATIONS: Final[tuple[type[Federation], ...]] = (
    decentralized.Decentralized,
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
