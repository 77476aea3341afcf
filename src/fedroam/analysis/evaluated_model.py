"""Which model clients are judged by, in words: as each run has recorded it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedroam.analysis.variants import Variant

# What federations call the first of the models that they judge clients by (see `Federation.judged`), in words.
MODELS = {
    "own": "each client's own model",
    "global": "the global model, the server's or the cloud's, which is the same for all",
    "access_point": "the model of each client's access point",
    "personal": "each client's personal model",
    "prototypes": "the nearest prototype in the features of each client's own model",
    "global_head": "each client's own features with the server's head",
    "own_head": "each client's own features and head",
}
UNKNOWN = "the model that the federation judges each client by"


def judge_of(group: Variant) -> str:
    """What the first run of a variant that counts calls the model clients are judged by; empty where it says nothing.

    Runs of an older format say nothing.
    """
    return next((str(names[0]) for run in group.judged if (names := run.status.get("judged"))), "")


def judges(groups: Sequence[Variant]) -> dict[str, str]:
    """`judge_of` each variant that has a run that counts, by its label."""
    return {group.label: judge_of(group) for group in groups if group.judged}


def model_words(names: Mapping[str, str]) -> str:
    """`each client's own model`; where variants differ, each model with its variants.

    names: what `judges` gives. A name that a federation of one's own has chosen stands as it is.
    """
    labels: dict[str, list[str]] = {}
    for label, name in names.items():
        labels.setdefault(name, []).append(label)
    words = {name: MODELS.get(name) or (f"the model called {name!r}" if name else UNKNOWN) for name in labels}
    if len(labels) <= 1:
        return next(iter(words.values()), UNKNOWN)
    return "; ".join(f"{words[name]} ({', '.join(several)})" for name, several in labels.items())


def meaning(names: Mapping[str, str]) -> str:
    """What accuracy is, in a sentence or two."""
    text = (
        "Accuracy is the share of test samples classified correctly: the mean over clients, each counting once, of the "
        "accuracy of "
    )
    if len(set(names.values())) <= 1:
        return f"{text}{model_words(names)}."
    return f"{text}the model that a client is judged by. That is {model_words(names)}."


def mean_model_meaning(names: Mapping[str, str]) -> str:
    """What the accuracy of the averaged model is."""
    kinds = set(names.values())
    if kinds <= {"own"}:
        return "Averaged model: the accuracy of the average of all clients' parameters at the end, judged as one model."
    return (
        "Averaged model: the accuracy at the end of the one model that stands for all, the global one or else the "
        "average of all clients' parameters; a dash where there is none."
    )
