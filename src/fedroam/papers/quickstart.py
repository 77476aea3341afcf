"""Does movement help? The claims of this project's own README, judged like those of a paper."""

from __future__ import annotations

from typing import Any

from fedroam.study.claims import Claim, order, over, rises, size, under
from fedroam.study.items import Curves, Doses, Search, table
from fedroam.study.measures import best, final, mean_model, over_run
from fedroam.study.study import Scale, Study

# Moving clients of 20; nobody moves in `static`.
MOVING = {0: "static", 1: "one", 2: "two", 5: "random", 10: "ten"}
VARIANTS: dict[str, dict[str, Any]] = {
    "static": {"mobility": "static"},
    **{name: {"mobility": {"kind": "random", "mobile": k}} for k, name in MOVING.items() if k},
    "dam": {"mobility": "dam"},
    "dcm": {"mobility": "dcm"},
}
FIVE_MOVE = ("random", "dam", "dcm")

STUDY = Study(
    name="quickstart",
    title="Does movement help?",
    paper="README of fedroam, “What the quickstart shows”.",
    printed_in="README",
    about="Twenty clients on an 18 x 18 grid learn digits without a server. Nobody moves, or some do.",
    base="quickstart",
    variants=VARIANTS,
    scales={
        "quick": Scale(
            seeds=4,
            settings={"rounds": 80},
            cut=("80 rounds instead of 200: every curve still rises, so final accuracies are lower.",),
        ),
        "full": Scale(seeds=6),
    },
    tables=(
        table(
            "final",
            "Final accuracy",
            rows={name: name for name in ("static", *FIVE_MOVE)},
            columns={"Final accuracy (%)": final, "Averaged model (%)": mean_model},
            value=lambda variant, measure: measure.of(variant),
            paper=(
                ((59.3, 4.5), (68.3, 5.6)),
                ((93.1, 1.5), (96.8, 0.2)),
                ((94.5, 0.5), (96.8, 0.3)),
                ((95.7, 0.5), (97.0, 0.4)),
            ),
            source="README, table",
            caption="The README's numbers are means over three seeds, the first three of those run here.",
        ),
        table(
            "gain",
            "What movement brings",
            rows={
                **{f"{k} at random": name for k, name in MOVING.items() if k},
                "5 by DAM": "dam",
                "5 by DCM": "dcm",
            },
            columns={"Final accuracy minus static (points)": final},
            value=lambda variant, measure: measure.of(variant) - measure.of("static"),
            paper=((None,), (None,), ((33.7, 3.1),), (None,), ((35.2, 4.2),), ((36.4, 4.1),)),
            source="README, table",
        ),
    ),
    searches=(
        Search(
            "enough",
            "How many must move to reach 90 % of what ten reach?",
            {k: final.of(name) for k, name in MOVING.items()},
            bound=final.of("ten"),
            share=0.9,
        ),
    ),
    figures=(
        Curves(
            "curves",
            "Accuracy over rounds",
            {
                "How many move, at random": {
                    "static": "static",
                    "one": "one",
                    "five at random": "random",
                    "ten": "ten",
                },
                "How five move": {
                    "static": "static",
                    "five at random": "random",
                    "DAM": "dam",
                    "DCM": "dcm",
                },
            },
            caption="Mean over clients of the accuracy of each one's own model.",
        ),
        Doses(
            "dose",
            "Final accuracy by number of moving clients",
            {"": {k: final.of(name) for k, name in MOVING.items()}},
            xlabel="Moving clients (of 20)",
            ylabel="Final accuracy (%)",
            bound=final.of("ten"),
            share=0.9,
            bound_label="90 % of what ten moving reach",
        ),
    ),
    claims=(
        Claim(
            "movement-helps",
            "Without movement, clients stay in small groups that never meet. Five that move carry what is learnt "
            "from one group to the next.",
            order(final.of("random"), final.of("static")),
            source="README",
        ),
        Claim(
            "by-25-points",
            "Five moving clients bring at least 25 points.",
            size(final.of("random"), final.of("static"), at_least=25),
            source="README: +33.7 ± 3.1",
        ),
        Claim(
            "more-is-better",
            "The more clients move, the higher the final accuracy.",
            rises({k: final.of(name) for k, name in MOVING.items()}),
        ),
        Claim(
            "static-stays-low",
            "Without movement no round comes near the 93 % that movement reaches: all stay below 80 %.",
            under(best.of("static"), 80),
            source="README, figure",
        ),
        Claim(
            "averaged-model-gains-less",
            "The averaged model, which nobody holds, gains less from movement than the clients' own models.",
            order(
                final.of("random") - final.of("static"),
                mean_model.of("random") - mean_model.of("static"),
            ),
            source="README, table: +28.5 against +33.7",
        ),
        Claim(
            "dcm-is-ahead",
            "Clients steered to where the data differs (DCM) are ahead of clients that move at random, over the run.",
            order(over_run.of("dcm"), over_run.of("random")),
            source="README: DCM gets there in fewer rounds",
        ),
        Claim(
            "dcm-ends-higher",
            "They also end higher.",
            order(final.of("dcm"), final.of("random")),
            source="README: three seeds do not tell",
        ),
        Claim(
            "one-is-enough",
            "A single moving client brings the clients above 90 %.",
            over(final.of("one"), 90),
            source="nobody; a guess that is too bold",
        ),
    ),
)
