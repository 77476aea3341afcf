"""How de Heredia (2024) was read, and where this study departs from it."""

from fedroam.study.study import Reading

READINGS = (
    Reading(
        "chunks of the non-IID split",
        "Chunks of 260 images lie side by side in the sorted images.",
        paper="The author's code cuts each chunk at a random place out of what is left, so that it may span "
        "classes",
        source="Sec. 6.1, public code",
        deviation=True,
        effect="A client holds 3.6 classes on average instead of 4.0 (3.4 at scale quick, where chunks and "
        "classes fit).",
    ),
    Reading(
        "scaling of pixels",
        "Standardised channel by channel.",
        paper="The author's code maps pixels to -1 .. 1",
        source="public code",
        deviation=True,
        effect="Not measured.",
    ),
    Reading(
        "first exchange",
        "The first round has its movement and contacts like any other.",
        paper="A client is its own only neighbour at time 0, so that nothing is exchanged in the first "
        "iteration",
        source="Alg. 1, Sec. 5.2",
        deviation=True,
        effect="One exchange of 4,000.",
    ),
    Reading(
        "contacts on the way",
        "Found in closed form on each straight piece of the way.",
        paper="The author's code looks at 100 points of the way, which misses 0.4 to 0.9 % of contacts",
        source="Sec. 5.2 defines them for every moment; public code",
    ),
    Reading(
        "gradient",
        "The mean over the batch.",
        paper="Alg. 1 prints the sum; the author's code takes the mean",
        source="Alg. 1",
        deviation=True,
    ),
    Reading(
        "final accuracy",
        "Tables take the last evaluation, as printed; claims the mean of the last three.",
        effect="Single clients swing by tens of points late in a run.",
    ),
    Reading(
        "words for sizes",
        "Diminishing, negligible and much smaller are given numbers, each told with its claim.",
    ),
    Reading(
        "choice of alpha",
        "Every fixed alpha of the paper, and one that each client chooses (auto), which is not the paper's.",
        paper="Left open",
        source="Sec. 8",
    ),
)
