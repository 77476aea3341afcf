"""How Reza et al. was read, and where this study departs from it."""

from fedroam.study.study import Reading

READINGS = (
    Reading(
        "momentum on MNIST",
        "It does not outlive a round: an optimiser is made anew for the round's one step.",
        paper="Momentum 0.9, and not whether it is kept",
        source="Sec. V",
        effect="Kept between rounds it does not learn at a learning rate of 0.3 here.",
    ),
    Reading(
        "scaling of pixels",
        "In [0, 1].",
        effect="With standardised pixels it diverges at this learning rate.",
    ),
    Reading(
        "nearest point within Rm",
        "The grid point within Rm of here that is nearest to the destination; ties at random.",
        paper="The text says along the path, the equation arg min",
        source="Sec. IV",
        deviation=True,
    ),
    Reading(
        "cluster centres of DCM",
        "Sought over all grid points; ties by all static clients covered.",
        paper="The algorithm says all points, the text those of remaining clients",
        source="Sec. IV",
        deviation=True,
    ),
    Reading(
        "all class mixes alike",
        "The destination is drawn uniformly.",
    ),
    Reading(
        "start models",
        "All equal.",
        source="said by the later paper of these authors",
    ),
    Reading(
        "gains",
        "A gain of about g points is tested as more than g / 2: a test of at least g could never decide "
        "where it is exactly g.",
        paper="approximately",
        source="Sec. V-B",
    ),
    Reading(
        "axes of figure 3",
        "Values of our own.",
        paper="Its text does not print them",
        source="Fig. 3",
    ),
    Reading(
        "start of ResNet-50",
        "Random weights.",
        paper="Weights learnt on ImageNet-1K",
        source="Sec. V",
        deviation=True,
        effect="Accuracies on CIFAR-10 are lower; model.weights takes a file of weights.",
    ),
)
