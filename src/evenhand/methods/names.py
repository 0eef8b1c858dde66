"""The names of the methods and what each is: what can be known of them without importing any."""

from evenhand.choices import AUTO as AUTO

DEFAULT = "margin"
ABOUT = {
    "margin": "our own: walks inside the margin that gradients predict",
    "adf": "the paper's: gradients of both members of a pair",
    "eidig": "ADF's successor: momentum, gradients refreshed now and then",
    "probe": "our own black box: scores of a few moves, the nearest to the boundary",
    "maft": "black box: gradients estimated from scores",
    "labels": "black box: decisions alone",
    "genetic": "black box: a population that evolves, then random local search",
    "sg": "symbolic generation: local trees, path constraints, a solver",
    "aequitas": "random, then local search with learned probabilities (fully directed)",
    "aequitas-semi": "AEQUITAS, semi-directed",
    "aequitas-random": "AEQUITAS, random local search",
    "themis": "uniform sampling of the domain",
}

TEXT_DEFAULT = "boundary"
TEXT_ABOUT = {
    "boundary": "our own: exact scores for the best replacements, walks inside the margin",
    "adf-asc": "the paper's, with the ASC rule: the word of most impact",
    "adf-hotflip": "the paper's, with the HotFlip rule: all words and candidates",
    "asc": "the ASC attack: the text's gradient alone",
    "hotflip": "the HotFlip attack: the text's gradient alone",
    "random": "the paper's RP: random words, random candidates",
}
