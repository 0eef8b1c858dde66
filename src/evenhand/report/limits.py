"""What a run does not say, in sentences for reports and model cards."""

from typing import Any

from evenhand.report.sentences import by_phase, is_about_texts, protected_name
from evenhand.report.words import joined

PROXIES = (
    "Only protected values are changed. Attributes or words that stand in for them (proxies) are not, so what happens "
    "through them is not seen, and groups may get different decisions on the whole."
)
NO_PROOF = (
    "Each pair was put to the model and is real. Finding few or none within a budget is no proof that there are no "
    "more."
)
BINS = (
    "People of the data are checked as they stand in the table. Generated samples have the values of the schema, where "
    "one number stands for all of a bin or a step."
)
NEW_FINDINGS = (
    "A trained repair removes findings that were made against the old model; a new search may find others. "
    "Audit the repaired model again."
)
OUTCOMES = "Accuracy is agreement with the outcomes in the data, which may themselves be the result of discrimination."
DOMAIN = "In the whole domain every combination of values is equally likely; most such people do not exist."
WORDS_ALONE = "Texts are changed in words of the lexicon alone; the grammar around them stays as it is."
ENDED = {
    "interrupted": "The run was interrupted",
    "budget-spent": "The budget of rows for the model was spent on the way",
    "model-failed": "The model failed on the way",
}


def limits_of(summary: dict[str, Any]) -> list[str]:
    """The limits of an audit, a measurement or a repair, from its summary."""
    kind = summary["kind"]
    found = [NO_PROOF] if kind == "audit" else [NEW_FINDINGS, OUTCOMES] if kind == "repair" else []
    found += [PROXIES, _intervals(summary)]
    if is_about_texts(summary):
        found += text_limits(summary) if kind == "audit" else [WORDS_ALONE]
    else:
        found += [BINS] if kind == "audit" else [BINS, DOMAIN]
    stopped = summary.get("stopped", summary.get("search", {}).get("stopped"))
    return found + ([f"{ENDED[stopped]}: less was looked at than was asked for."] if stopped in ENDED else [])


def _intervals(summary: dict[str, Any]) -> str:
    confidence = summary["config"].get("confidence", 0.95)
    return (
        f"An interval of {confidence:.0%} is meant for each rate by itself, and for the people whom the rows stand for "
        "only if these are a random sample of them."
    )


def text_limits(summary: dict[str, Any]) -> list[str]:
    """What an audit of texts cannot see or do, in plain words."""
    config, lexicon, about = summary["config"], summary["lexicon"], protected_name(summary)
    tokens = config["moves"] == "tokens"
    return [
        "A decision that changes is not always wrong. Some sentences say something else, or something false, when a "
        f"word of {about} is exchanged. Which findings matter is for a person to judge.",
        f"A mention is a word of the lexicon “{lexicon['title']}”. Words that it lacks are not seen. "
        + _ambiguous_text(lexicon["ambiguous"]),
        "Exchanging a word leaves the grammar around it as it is: “a” and “an”, articles, verbs and endings are not "
        "adjusted. Some texts therefore read oddly, and a model may react to that.",
        *_swap_limit(lexicon["swap"], about),
        f"A replaced word becomes one of the {config['k']} nearest in the word vectors. Near is not the same in "
        "meaning: opposites are often near. "
        + ("Any word, number or sign that is not protected may be replaced, function words too. " if tokens else "")
        + "Both members of a pair share every replaced word, so replaced words alone cannot make them differ.",
        _similarity_limit(summary),
        f"The model reads at most {summary['model']['reads']:,} words of a text. What comes later changes nothing.",
    ]


def _ambiguous_text(ambiguous: str) -> str:
    if ambiguous == "exclude":
        return (
            "Words with other meanings (“black” as a colour) count only where the words beside them speak for the "
            "protected meaning. This rule looks no further than that and errs in both directions."
        )
    return "Words with other meanings (“black” as a colour) count wherever they stand, in whatever meaning."


def _swap_limit(swap: str, about: str) -> list[str]:
    if swap == "all":
        return []
    return [
        f"One mention is exchanged at a time. A text that mentions {about} more than once then speaks of two values "
        "where it spoke of one."
    ]


def _similarity_limit(summary: dict[str, Any]) -> str:
    measured = [
        f"{means['similarity_of']:,} of {means['findings']:,} findings of the {phase} phase"
        for phase, means in by_phase(summary)
        if means["similarity"] is not None
    ]
    if not measured:
        return "Semantic similarity was not measured, so nothing says whether findings still mean what the text meant."
    return (
        f"Semantic similarity was measured on {joined(measured)}. It compares texts as a sentence encoder sees them; a "
        "high value does not promise the same meaning."
    )
