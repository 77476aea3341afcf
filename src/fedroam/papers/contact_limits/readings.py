"""How the question of this study was put, and what was left out of it."""

from fedroam.study.study import Reading

READINGS = (
    Reading(
        "random movement",
        "Straight walks with a new direction, up, down, left or right, each round (de Heredia, Sec. 5.1), in a square "
        "of 1 km. Speeds are uniform up to the highest.",
    ),
    Reading(
        "model size and bandwidth",
        "One axis: seconds of sending. On a link of one rate that nobody shares they count by their ratio alone, which "
        "is tested with a network of four times the size.",
    ),
    Reading(
        "an exchange",
        "It takes place where the models of both ends get through in one contact; what breaks is lost. Training takes "
        "no time.",
        effect="Longer training would shorten contacts further.",
    ),
    Reading(
        "ways between fixes",
        "Taxis drive straight between two fixes, up to 15 minutes apart, at constant speed; vehicles of Bologna have a "
        "fix each second or every few.",
    ),
    Reading(
        "three regimes of others",
        "The regimes of this study are its own: contacts too short for any model, for some, for none. Of the other "
        "three, the first and the third are tested, with straight walks and a link of one rate; the second is not, "
        "since what breaks is lost here. The abstract is all of the paper that could be had.",
        paper="With Random Waypoint movement over Bluetooth LE, LTE and Wi-Fi, decentralized averaging that overlaps "
        "with training has three regimes: (i) the time between contacts decides convergence, by mixing; (ii) models "
        "that arrive in part do little harm where contacts are frequent; (iii) very dense contacts compete for the "
        "air, which lowers the throughput",
        source="Sabella, Boldrini, Valerio, Conti, Passarella, Operating regimes of decentralized learning under "
        "mobility and bandwidth constraints, arXiv 2606.28342, abstract",
    ),
    Reading(
        "rankings",
        "The world of Reza et al. with digits instead of MNIST: what is asked is whether an order that holds without "
        "links still holds with them, not how large the gain is.",
    ),
    Reading(
        "shares that get through",
        "Of the rounds that are evaluated.",
    ),
)
