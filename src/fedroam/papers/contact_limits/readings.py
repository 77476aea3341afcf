"""How the question of this study was put, and what was left out of it."""

from fedroam.study.study import Reading

READINGS = (
    Reading(
        "random movement",
        "Random waypoint in a square of 1 km, without rests: straight ways to uniform places at uniform speeds, 0.5 to "
        "1.7 m/s (slow) or 4 to 13 m/s (fast). It begins in its steady state, as Navidi & Camp (2004) draw it, so that "
        "no rounds are warm-up; from uniform places and fresh speeds it would gather in the middle and slow down for "
        "many rounds (Yoon, Liu & Noble 2003). The lowest speed is above 0, without which there is no steady state.",
    ),
    Reading(
        "straight walks",
        "What this study was first declared with, and kept as a comparison: a new direction, up, down, left or right, "
        "each round (de Heredia, Sec. 5.1), in the same square, at speeds from 0 to the highest, drawn once. Its "
        "claims stay as they were judged; those on random waypoint, and on which method wins where, were added as two "
        "families of their own.",
    ),
    Reading(
        "which axes are one",
        "Size and bandwidth count by their ratio alone where sending needs no set-up and training takes no time: one "
        "axis, seconds of sending. All lengths count by their ratios, and all times: twice the square, the reach and "
        "the speeds in m/s, or half the round, the sending and the training at twice the speeds in m/s, let the same "
        "transfers through (a test). So three axes are left of a square, a reach, a speed, a round, a size and a "
        "bandwidth: reach and way of a round, each in sides of the square, and sending in rounds. Fast clients meet "
        "others in proportion to speed times reach (2 v R of relative speed v, and what is within reach already). "
        "Size also changes what is learnt, and how long training takes: a table has three sizes at one rate, and the "
        "map of regimes has size and bandwidth apart, with training that takes time.",
    ),
    Reading(
        "regimes",
        "By the share of the transfers that get through: none below 5 %, nearly all above 80 %, some between. A "
        "contact of two clients who pass at distance d with relative speed v lasts 2 sqrt(R² − d²) / v; a round cuts "
        "it. The borders are ours; the times of the three, for fast clients with a reach of 50 m, were chosen by the "
        "closed form of such passes, with speeds of the steady state and uniform directions.",
        effect="Ways that turn during a contact are not in the closed form.",
    ),
    Reading(
        "who wins",
        "A method wins a regime if it is ahead of every other that is compared: the largest of the p-values counts "
        "(Berger 1982), so that no choice after the fact is tested. Each winner was named beforehand: by the closed "
        "form, by a paper, or by the runs on straight walks, as each claim says.",
    ),
    Reading(
        "an exchange",
        "It takes place where the models of both ends get through in one contact; what breaks is lost, where nothing "
        "else is said. Training takes no time.",
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
        "three, the first and the third are tested, on a link of one rate with straight walks, where what breaks is "
        "lost; all three with random waypoint, where parts of a model can be used. The abstract is all of the paper "
        "that could be had.",
        paper="With Random Waypoint movement over Bluetooth LE, LTE and Wi-Fi, decentralized averaging that overlaps "
        "with training has three regimes: (i) the time between contacts decides convergence, by mixing; (ii) models "
        "that arrive in part do little harm where contacts are frequent; (iii) very dense contacts compete for the "
        "air, which lowers the throughput",
        source="Sabella, Boldrini, Valerio, Conti, Passarella, Operating regimes of decentralized learning under "
        "mobility and bandwidth constraints, arXiv 2606.28342, abstract",
    ),
    Reading(
        "rankings",
        "The world of Reza et al. with digits instead of MNIST, Metropolis weights instead of those by samples, and "
        "epochs of small batches instead of full ones: what is asked is whether an order that holds without links "
        "still holds with them, not how large the gain is.",
    ),
    Reading(
        "a server",
        "It is reached all the time at the rate of the column, down and up, and shares no air. So times up to 30 s, "
        "half of a round, leave its runs as they are, in every seed, and so does movement: with random waypoint those "
        "on straight walks are compared, as are clients that learn alone. What they reach was known when winners were "
        "named.",
    ),
    Reading(
        "seeds that agree exactly",
        "Two claims say that values are equal, and in every seed they are. The method borrows what spread there is in "
        "other claims, which four seeds do not outweigh: undecided says nothing against them. The share of the taxis "
        "is the same in every seed, too, as all drive by one trace; there a sign test asks for more seeds.",
    ),
    Reading(
        "shares that get through",
        "Of the rounds that are evaluated.",
    ),
)
