"""Which model clients are judged by, in words: as each run has recorded it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedroam.analysis.variants import Variant

# What federations call the first of the models that they judge clients by (`Federation.evaluation_models`), in words.
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


def evaluated_models(compared: Sequence[Variant]) -> dict[str, str]:
    """What each variant's runs call the model that clients are judged by, by the variant's label.

    The first run that counts and says so speaks for all; empty where none does, as in runs of an older format.
    Variants without a run that counts are left out.
    """
    return {
        variant.label: next(
            (str(names[0]) for run in variant.included if (names := run.status.get("judged"))), ""
        )
        for variant in compared
        if variant.included
    }


def describe_models(models: Mapping[str, str]) -> str:
    """`each client's own model`; where variants differ, each model with its variants.

    models: what `evaluated_models` gives. A name that a federation of one's own has chosen stands as it is.
    """
    labels: dict[str, list[str]] = {}
    for label, name in models.items():
        labels.setdefault(name, []).append(label)
    words = {name: MODELS.get(name) or (f"the model called {name!r}" if name else UNKNOWN) for name in labels}
    if len(labels) <= 1:
        return next(iter(words.values()), UNKNOWN)
    return "; ".join(f"{words[name]} ({', '.join(several)})" for name, several in labels.items())


def accuracy_meaning(models: Mapping[str, str]) -> str:
    """What accuracy is, in a sentence or two."""
    text = (
        "Accuracy is the share of test samples classified correctly: the mean over clients, each counting once, of the "
        "accuracy of "
    )
    if len(set(models.values())) <= 1:
        return f"{text}{describe_models(models)}."
    return f"{text}the model that a client is judged by. That is {describe_models(models)}."


def shared_model(models: Mapping[str, str]) -> bool:
    """Whether all clients of all variants are judged by one model, so that there is no other one to average."""
    return bool(models) and set(models.values()) == {"global"}


def mean_model_meaning(models: Mapping[str, str], evaluated_on: Mapping[str, str]) -> str:
    """What the accuracy of the averaged model is."""
    pooled = "own" in evaluated_on.values()
    if shared_model(models):
        return (
            "Samples pooled: the same global model at the end on all clients' test samples taken together, each sample "
            "counting once; in the final accuracy each client counts once, however few samples it has."
        )
    where = " It is judged on all clients' test samples taken together." if pooled else ""
    if set(models.values()) <= {"own"}:
        return (
            "Averaged model: the accuracy of the average of all clients' parameters at the end, judged as one model."
            f"{where}"
        )
    return (
        "Averaged model: the accuracy at the end of the one model that stands for all, the global one or else the "
        f"average of all clients' parameters; a dash where there is none.{where}"
    )
