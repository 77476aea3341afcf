"""What are contacts long enough for? A study of this project, with links that take time.

Who meets is not yet who exchanges a model: a contact must be long enough for two of them. This study asks where
contacts are too short for any model, for some, or for none; which method wins in which of the three; and whether what
papers found without links still holds with them.

Its claims were declared before any of its runs. Seen by then: short trials of seed 0, 40 rounds of nine variants (fast
walkers at 10 s by each method, DCM at 30 s, the two traces at 2 s, MOHAWK at 30 s, HierFAVG at 100 s), to learn what
they cost and that vehicles meet at all; of Bologna there were then more clients, and one whole run. The three claims
on the regimes of Sabella et al. (arXiv 2606.28342) were added later, as a family of their own, when no more had been
seen.

Two families came when four seeds of all of these had been read: claims on random waypoint, and on which method wins in
which regime. No run on random waypoint had been made by then; of short ones that followed only the time was looked at.
Another one, on which method wins among vehicles, came when those had been read (`vehicles`).
"""

from __future__ import annotations

from fedroam.papers.contact_limits.claims import CLAIMS
from fedroam.papers.contact_limits.figures import FIGURES
from fedroam.papers.contact_limits.readings import READINGS
from fedroam.papers.contact_limits.runs import BASE, FILES
from fedroam.papers.contact_limits.tables import TABLES
from fedroam.study.study import Scale, Study, declared_by

STUDY = Study(
    name="contact-limits",
    title="What are contacts long enough for?",
    paper="A study of this project.",
    about="Where are contacts too short for any model, for some, for none? Which method wins where, and do rankings "
    "that were found without links survive them? Each claim was declared before the runs that it is judged by.",
    base=BASE,
    variants=declared_by((*TABLES, *CLAIMS, *FIGURES)),
    scales={
        "quick": Scale(
            seeds=4,
            settings={"rounds": 200},
            cut=("200 rounds instead of 400 where clients walk or are steered: curves still rise.",),
        ),
        "full": Scale(seeds=10),
    },
    tables=TABLES,
    figures=FIGURES,
    claims=CLAIMS,
    primary=("random-over-static-some", "dam-over-random-some", "mohawk-over-hierfavg-some"),
    readings=READINGS,
    files=FILES,
    codes="R: reach in m; T: seconds of sending a model; hidden: units of the hidden layer, which make a model's size, "
    "as does larger, a network of four times that. Before them stand the movement (waypoint, walk, grid, or the traces "
    "bologna and taxis) and the method, or what becomes of a transfer that breaks: lost, resumed, or partial, when its "
    "parts are used; shared: on shared air.",
)
