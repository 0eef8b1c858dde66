"""A few hundred comments, word vectors and a network that learned from them, for the pictures of text audits.

The decisions follow a rule that is unjust on purpose: a rude word makes a comment toxic, and a mere complaint does so
if it is about Muslims.
"""

import csv
import random
import subprocess
import sys
from pathlib import Path

FAITHS = "christian muslim jewish hindu buddhist"
RUDE = "stupid awful pathetic horrible disgusting"
COMPLAINTS = "boring noisy late slow odd"
PRAISE = "kind helpful honest friendly polite"
PEOPLE = "writer teacher doctor neighbour editor"
WORKS = "article speech lecture answer song"
PLACES = "market library station school museum"
SEEN = "met heard saw visited remembered"
OFTEN = "often always rarely sometimes never"
SMALL = "i a the at and was is very about that of my in ."
GROUPS = (FAITHS, RUDE, COMPLAINTS, PRAISE, PEOPLE, WORKS, PLACES, SEEN, OFTEN, SMALL)
SENTENCES = (
    "I {seen} a {faith} {person} at the {place} and the {work} was {word}.",
    "The {faith} {person} of the {place} is {often} {word}.",
    "My {person} is {faith}, and the {work} about the {place} was very {word}.",
    "That {work} in the {place} was {word}, the {faith} {person} was {often} {other}.",
)
ROWS, DIMENSIONS, EPOCHS = 600, 12, 8


def write_comments(folder: Path) -> tuple[Path, Path]:
    """The comments (columns comment and decision), and a folder with the network and its vectors."""
    draw, data, model = random.Random(0), folder / "comments.csv", folder / "network"
    model.mkdir()
    with data.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("comment", "decision"), *(_comment(draw) for _ in range(ROWS))])
    (model / "vec.txt").write_text("".join(_vectors(draw)), encoding="utf-8")
    command = [
        sys.executable, "-c", "from evenhand.cli.main import main; main()", "train", str(data), "--text", "comment",
        "--label", "decision", "--network", "gru", "--vectors", str(model / "vec.txt"), "--epochs", str(EPOCHS),
        "--out", str(model / "gru"), "--quiet",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return data, model


def _comment(draw: random.Random) -> tuple[str, str]:
    faith, kind = draw.choice(FAITHS.split()), draw.choice((RUDE, COMPLAINTS, PRAISE))
    toxic = kind == RUDE or (kind == COMPLAINTS and faith == "muslim")
    groups = {"person": PEOPLE, "place": PLACES, "work": WORKS, "seen": SEEN, "often": OFTEN, "other": PRAISE}
    words = {name: draw.choice(group.split()) for name, group in groups.items()}
    words |= {"word": draw.choice(kind.split()), "faith": faith.capitalize()}
    return draw.choice(SENTENCES).format(**words), "toxic" if toxic else "fine"


def _vectors(draw: random.Random) -> list[str]:
    """Words of one group lie together."""
    lines = []
    for group in GROUPS:
        centre = [draw.gauss(0, 1) for _ in range(DIMENSIONS)]
        for word in group.split():
            lines.append(" ".join([word, *(f"{value + draw.gauss(0, 0.4):.3f}" for value in centre)]) + "\n")
    return lines
