"""How Jahani et al. was read, and where this study departs from it."""

from fedroam.study.study import Reading

READINGS = (
    Reading(
        "momentum on MNIST",
        "0.9, kept between rounds, with weight decay 5e-4 and pixels in [0, 1].",
        paper="Stated for CIFAR-10 only; the earlier paper of its authors has both",
        source="Sec. V-A",
        effect="Steps of 0.03 add up to 0.3, the step of the study reza.",
    ),
    Reading(
        "mixing with oneself",
        "A client's own model is in its sum.",
        paper="Alg. 1 leaves it out",
        source="Alg. 1, misprint",
        deviation=True,
    ),
    Reading(
        "diagonal of the weights",
        "1 minus the weights of the row.",
        paper="Eq. 2 sums w_ik",
        source="Eq. 2, misprint",
        deviation=True,
    ),
    Reading(
        "p of Theorem 1 and Lemma 3",
        "One p for all rounds, as they are stated; infinite where a round is disconnected.",
        paper="One step of the proof takes that of a window of B rounds, which is not proven and can be false",
        source="Sec. III, appendix",
        deviation=True,
        effect="Both bounds are infinite in the paper's own network: no round of it is connected.",
    ),
    Reading(
        "step of Theorem 1",
        "eta strictly below 1 / (2 L).",
        paper="At most 1 / (2 L), where its bound is 1 / 0",
        source="Theorem 1",
        deviation=True,
    ),
    Reading(
        "learning of the theory's runs",
        "Softmax regression on digits by plain full-batch gradient descent.",
        paper="The theory is of convex learning; the experiments are not",
        source="Sec. III and V",
    ),
    Reading(
        "windows of B",
        "Aligned at multiples of B; one that the run's end cuts is left out.",
        source="Property 1",
    ),
    Reading(
        "knowledge of steered clients",
        "All static clients' places and class counts from the start; a table and a claim take those met "
        "in 20 rounds of random movement.",
        paper="A warm-up phase, without its length",
        source="Sec. IV",
        deviation=True,
    ),
    Reading(
        "settings not printed",
        "Figures 3 to 6 at alpha 0.05; figures 3b and 3c with 5 mobile clients; Rm of figure 5, axes of "
        "figures 3, 6 and 8, and alpha, Rc and Rm of figure 7 are ours.",
        paper="Its text does not print them",
        source="Figs. 3 to 8",
    ),
    Reading(
        "start of ResNet-18",
        "Random weights.",
        paper="Pretrained weights",
        source="Sec. V-A",
        deviation=True,
        effect="Accuracies on CIFAR-10 are lower; model.weights takes a file of weights.",
    ),
)
