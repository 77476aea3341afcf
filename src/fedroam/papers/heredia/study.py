"""Does movement help, who profits, and do weights by speed close the gap? The study of de Heredia (2024).

Declared whole: tables 1 to 8, figures 3 to 8, and the claims. Those of `LATER` were declared when scale quick
had been run with three seeds, which their cards say; all others before any run. What runs take stands in the records of
those that are kept and on the page of results; `fedroam reproduce heredia --dry-run` measures the others.

Readings. "Final" accuracy in the tables is that of the last evaluation, as the paper prints it. Since single clients
oscillate by tens of points late in a run, claims about it are tested on the mean of the last three evaluations. The
advantage of high-mobility clients is averaged over all evaluations after the start. Claims about sizes that the paper
leaves in words ("diminishing", "much smaller") are given numbers here, and say which.

The paper leaves open how alpha should be chosen. The last two claims are therefore not the paper's: they ask whether
`alpha = "auto"` beats every fixed value, plain averaging included. They were added when the first runs were under
way, before any result was read. All claims but the primary ones are corrected together, so that these two make the
verdicts on the others a little more cautious.
"""

from __future__ import annotations

from fedroam.papers.heredia.claims import BY_ALPHA, CLAIMS, IID, RETURNS
from fedroam.papers.heredia.figures import FIGURES
from fedroam.papers.heredia.runs import ALPHAS, RUNS, SHARES, variant
from fedroam.papers.heredia.tables import TABLES
from fedroam.study.claims import declared_knowing
from fedroam.study.study import Reading, Scale, Study, declared

SCALES = {
    "quick": Scale(
        seeds=4,
        settings={
            "clients": 20,
            "rounds": 80,
            "evaluate_every": 20,
            "data": {"train_samples": 20_800, "test_samples": 250},
            "mobility": {"width": 320.0, "height": 320.0},
        },
        cut=(
            "20 clients instead of 48, in a world of 320 x 320 m instead of 500 x 500: as densely, but nearer to the "
            "walls, so that a client meets 6 to 12 % fewer a round. p = 5 % is a single client.",
            "80 rounds instead of 4,000, evaluated every 20 instead of every 40: learning has only begun, so "
            "accuracies and their differences are not those of the paper's end.",
            "20,800 training images instead of 50,000: as many a client as in the paper, in chunks of one class each.",
            "250 test images instead of 9,000: an accuracy of one model is uncertain by up to 3 points. All clients, "
            "variants and seeds are judged on the same images.",
            "IID data with plain averaging only, so that Table 8 is left out; alpha from 0.1 to 0.4 not where p is 0 "
            "or 100 %, in Table 7.",
        ),
        without=(
            *(variant(share, alpha, iid=True) for share in SHARES for alpha in ALPHAS),
            *(variant(share, alpha) for share in (0.0, 1.0) for alpha in ALPHAS[:-1]),
        ),
    ),
    "medium": Scale(
        seeds=4,
        settings={
            "rounds": 400,
            "evaluate_share": 0.25,
            "evaluate_whole": 3,
            "data": {"test_samples": 2000},
        },
        cut=(
            "400 rounds instead of 4,000: learning is under way, so accuracies and their differences are not those of "
            "the paper's end. Clients and training images are the paper's, the world is the author's code's.",
            "2,000 test images instead of 9,000, and all but the last three evaluations on 500 of them: an accuracy of "
            "one model is uncertain by up to 1.1 points, on the curve by 2.2. All clients, variants and seeds are "
            "judged on the same images.",
        ),
    ),
    "full": Scale(
        seeds=3,
        settings={"evaluate_share": 0.25, "evaluate_whole": 3},
        cut=(
            "All but the last three evaluations of a run are on 2,250 of the 9,000 test images, classes in proportion "
            "and the same ones for all clients, variants and seeds: an accuracy of one model on the curve is uncertain "
            "by up to 1.1 points. Judging every model on all of them each time would take longer than learning.",
        ),
    ),
}

# How de Heredia (2024) was read, and where this study departs from it.
READINGS = (
    Reading(
        "chunks of the non-IID split",
        "Chunks of 260 images lie side by side in the sorted images.",
        paper="The author's code cuts each chunk at a random place out of what is left, so that it may span "
        "classes",
        source="Sec. 6.1, public code",
        deviation=True,
        effect="A client holds 3.6 classes on average instead of 4.0 (3.5 instead of 4.6 at scale quick, where "
        "chunks and classes fit; docs/records/readings.json).",
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
        source="Alg. 1, Sec. 5.1",
        deviation=True,
        effect="One exchange of 4,000.",
    ),
    Reading(
        "walls",
        "Whoever comes to a wall is thrown back by it, as light is by a mirror.",
        paper="As printed, the step that leads out has its sign turned, step by step, and overshoots the wall by less "
        "than a step",
        source="Eq. 2",
        deviation=True,
        effect="The printed rule comes to this one as its steps become shorter.",
    ),
    Reading(
        "weights where nobody near moves",
        "Equal ones: a client's and its neighbours' speeds are all 0 then, and shares of speed mean nothing.",
        source="Sec. 5.4",
    ),
    Reading(
        "contacts on the way",
        "Found in closed form on each straight piece of the way.",
        paper="The author's code looks at 100 points of the way, which misses 0.4 to 0.6 % of contacts",
        source="Sec. 5.1 defines them for every moment; public code",
    ),
    Reading(
        "world, speeds, radius, network and training",
        "500 x 500 m, speeds up to 50 m a round and 87.5 to 175 m, a radius of 45 m; three convolutions with group "
        "normalisation, 89,834 parameters; plain SGD, learning rate 0.01, batches of 8; 4,000 rounds at scale full.",
        paper="Its text prints none of these numbers: they are those of the author's code",
        source="Sec. 6.1, public code",
    ),
    Reading(
        "steps a round",
        "Three minibatches a round, drawn anew each round.",
        paper="Alg. 1 has one gradient step; the author's code takes three minibatches",
        source="Alg. 1, public code",
        deviation=True,
    ),
    Reading(
        "model that is judged",
        "Accuracies are means over the clients' own models.",
        paper="Alg. 1 ends with the average of all models as the model for inference; the tables and figures are of "
        "accuracies averaged over clients",
        source="Alg. 1, line 8; Sec. 6",
    ),
    Reading(
        "gradient",
        "The mean over the batch.",
        paper="Alg. 1 prints the sum; the author's code takes the mean",
        source="Alg. 1",
        deviation=True,
        effect="As printed, steps would be as many times as long as a batch has samples: 8 times.",
    ),
    Reading(
        "final accuracy",
        "Tables take the last evaluation, as printed; claims the mean of the last three.",
        effect="A mean of three swings less than a single evaluation.",
    ),
    Reading(
        "words for sizes",
        "Diminishing, negligible and much smaller are given numbers, each told with its claim.",
    ),
    Reading(
        "what alpha = 0.4 takes off the difference between groups",
        "That of p = 5 % is tested (at half of it); of the others claims speak on average over p, and of all alphas.",
        paper='"more than 1.5%" at p = 5 %, "around 1.0%" at p = 20 %, and "similar disparities" '
        "with more mobile clients",
        source="Sec. 6.4",
    ),
    Reading(
        "differences of accuracy by alpha and p",
        "Not tested one by one.",
        paper='The largest is 1.53 % at alpha = 0.1 and p = 20 %, and there is "no identifiable trend"',
        source="Sec. 6.4, appendix",
    ),
    Reading(
        "where the loss by shares of speed ends",
        "That it is less from p = 60 % on is tested; that it is none then is not.",
        paper='After p = 20 % the "difference tends to 0"',
        source="Sec. 6.4",
    ),
    Reading(
        "choice of alpha",
        "Every fixed alpha of the paper, and one that each client chooses (auto), which is not the paper's.",
        paper="Left open",
        source="Sec. 8",
    ),
)
# Declared with the method of judging, the day after those seeds.
LATER = (
    *(claim.name for claim in (*RETURNS, *BY_ALPHA, *IID)),
    "five-percent-brings-much",
    "five-percent-outsized",
)

STUDY = Study(
    name="heredia",
    title="Client mobility in decentralized learning",
    paper="de Heredia, Exploring the Impact of Client Mobility on Decentralized Federated Learning Systems, 2024.",
    about="Does movement help, who profits, and do weights by speed close the gap between fast and slow clients? "
    "Three seeds at scale quick had been run when the primary claims, the tests and the claims that say so were fixed; "
    "at larger scales none had.",
    base="heredia",
    variants=declared(RUNS),
    scales=SCALES,
    tables=TABLES,
    figures=FIGURES,
    claims=declared_knowing("three seeds at scale quick", LATER, CLAIMS),
    primary=("more-is-better", "fast-ones-ahead", "naive-weights-lose"),
    readings=READINGS,
    codes="p: share of high-mobility clients; alpha: how strongly weights go by speed (auto: each client chooses), "
    "without it plain averaging; iid: with IID data.",
)
