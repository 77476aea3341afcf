"""The hardware prototype of Farcas et al. (MOHAWK, Sec. 4.4) as an emulated site, held against its simulation.

36 devices, 20 access points and a cloud, each a process with keys and connections of its own; models go over mutual
TLS, training takes as long as a board takes, and transfers as long as a link says. The same experiment is simulated
with the same seed, and one is held against the other: models, who takes part, bytes, energy by the model, time per
round.

Declared before any of its runs at scale quick; a run of scale tiny had been seen. CIFAR-10 at scale quick was declared
before its runs, too, after those of MNIST had been seen.
"""

from __future__ import annotations

from fedroam.papers.mohawk.runs import FILES
from fedroam.papers.prototype.claims import CLAIMS
from fedroam.papers.prototype.findings import describe
from fedroam.papers.prototype.measures import ON_NETWORK
from fedroam.papers.prototype.runs import BASE, QUICK, TINY
from fedroam.papers.prototype.tables import FIGURES, TABLES
from fedroam.study.study import Reading, Scale, Study, declared_by

VARIANTS = declared_by((*TABLES, *CLAIMS, *FIGURES))
QUICK_SEEDS = 4
NO_CIFAR = tuple(variant for variant in VARIANTS if variant.startswith("cifar10"))

READINGS = (
    Reading(
        "boards",
        "Raspberry Pi 4, whose speed by Linpack and power under load were published (11.9 GFLOP/s, 7.2 W), at a tenth "
        "of that speed.",
        paper="Raspberry Pi 3B+",
        source="Sec. 4.4",
        deviation=True,
        effect="The share is a guess: measure a round on the board and set compute.efficiency. Joules of training are "
        "its time times that power, so the share scales them, too.",
    ),
    Reading(
        "energy",
        "Reckoned: Eq. 1 for transfers, power times time for training.",
        paper="Measured at the socket by Smart Power 2 meters, so with what a board draws that only is on",
        source="Sec. 4.4",
        deviation=True,
        effect="fedroam energy reads such meters, where there are boards.",
    ),
    Reading(
        "radio",
        "A link of 10 Mbps to each device, which nobody shares; energy by the distance to the access point in the "
        "city, as in the simulation.",
        paper="36 boards at one wireless router",
        source="Sec. 4.4",
        deviation=True,
    ),
    Reading(
        "the month",
        "That of the study of MOHAWK (Gowalla, New York), the 36 devices with the most check-ins.",
        paper="Not said which 36 of its devices, nor for how many rounds",
        source="Sec. 4.4",
    ),
    Reading(
        "time of a round",
        "From its begin until the last model is aggregated. Evaluation and checkpoints, which the simulation lets take "
        "no time either, are not in it.",
        effect="The network runs of MNIST at scale quick were played twice. At first round 11 also had the server's "
        "deletion of what its checkpoints held by then, and other programs used the same two cores. Since then the "
        "deletion is done before a round begins. Before any of the second runs it was declared that they are kept, "
        "whatever they come to, in the place of the first; nothing else ran then. Beside those of CIFAR-10, which were "
        "played once, tests ran on the same cores. MOHAWK's were then declared to be played once more: a device that "
        "came back with an older update brought it when all others had trained, and not meanwhile, which made single "
        "rounds a transfer too long. Those of MNIST were. Then each device was let bring its update as soon as it has "
        "trained, and before anything of it was seen all eight were "
        "declared to be played with that. So they were, and these are kept; nothing else ran then. HierFAVG's on "
        "CIFAR-10 are the first ones.",
    ),
    Reading(
        "an hour",
        "Is played in one second and the time that devices then need: nobody waits for the next hour.",
    ),
)

STUDY = Study(
    name="prototype",
    title="Is a network its simulation? The prototype of MOHAWK as an emulated site",
    paper="Farcas, Lee, Kompella, Latapie, de Veciana, Marculescu: MOHAWK, IoTDI 2023, Sec. 4.4.",
    about="36 devices, 20 access points and a cloud, each a process on this machine, play the rounds over a real "
    "network, as fast as boards and links are; the same is simulated. Do both come to the same, in the same time? And "
    "does MOHAWK waste less energy?",
    base=BASE,
    variants=VARIANTS,
    scales={
        "tiny": Scale(
            seeds=1,
            settings=TINY,
            cut=(
                "6 devices and 3 access points, random walks, digits, a network of one hidden layer of 16 and k2 = 2: "
                "to see it work, in a minute. Energy of training is priced as if it were the paper's network.",
            ),
            without=NO_CIFAR,
        ),
        "quick": Scale(
            seeds=QUICK_SEEDS,
            settings=QUICK,
            cut=(
                "15 rounds instead of the month's 743, 50 images per device instead of 500, 500 test images instead of "
                "10,000: rounds take the time that they take.",
            ),
        ),
        "full": Scale(seeds=3),
    },
    tables=TABLES,
    figures=FIGURES,
    claims=CLAIMS,
    primary=("less-wasted-mnist",),
    readings=READINGS,
    files={name: make for name, make in FILES.items() if name == BASE["mobility"]["file"]},
    findings=describe,
    round_time=ON_NETWORK.name,
    on_network=tuple(variant for variant in VARIANTS if variant.endswith(",network")),
)
