"""Pairs to show, of tables and of texts: one card for reports, for the pages of the service, and for checks."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.report.sentences import is_about_texts
from evenhand.report.text_marks import Part, excerpt, has_strong_words, marks

if TYPE_CHECKING:  # torch, which a card does not need
    from evenhand.data.dataset import Dataset
    from evenhand.report.flips import Codes
    from evenhand.report.statistics import Example
    from evenhand.report.text_statistics import TextFinding

FROM_NOBODY = "Started from a random sample of the domain, not from a person."
MOST_SHOWN = 20  # pairs of a table in a report


@dataclass(frozen=True)
class PairSide:
    """One member of a pair; each of its protected values comes with whether it differs."""

    role: str
    protected: list[tuple[str, bool]]
    label: str
    score: float
    text: list[Part] = field(default_factory=list)  # of texts: the text, with what its words are
    got: bool = True  # of texts: the decision asked about


@dataclass(frozen=True)
class PairCard:
    """A pair in words: what both share, how they differ and what each gets, and where the pair comes from."""

    description: str  # empty for texts, each of which says what it shares with the other
    sides: list[PairSide]
    score_of: str
    origin: str = ""
    changes: list[tuple[str, str]] = field(default_factory=list)  # of texts: replaced words, before and after
    original: list[Part] = field(default_factory=list)  # of texts, where words were replaced
    similarity: float | None = None  # of a text to its original
    strong: bool = False  # a text has words that a reader may not want to meet unasked

    def as_dict(self) -> dict[str, Any]:
        """The card as summaries and events hold it; what only texts have is left out of the others."""
        if any(side.text for side in self.sides):
            return asdict(self)
        sides = [{name: getattr(side, name) for name in ("role", "protected", "label", "score")} for side in self.sides]
        return {"description": self.description, "sides": sides, "score_of": self.score_of, "origin": self.origin}


def example_pairs(
    summary: dict[str, Any], findings: Path, count: int, data: "Dataset | None" = None
) -> list[dict[str, Any]]:
    """The clearest pairs of a file of findings, as a summary holds them; those of a table need its data."""
    from evenhand.report.statistics import statistics_of
    from evenhand.report.text_statistics import choose_examples, text_statistics_of

    if is_about_texts(summary):
        clearest = text_statistics_of(summary, findings).clearest
        return [text_example(finding, summary) for finding in choose_examples(clearest, count)]

    assert data is not None  # findings of a table are codes
    cards = table_cards(summary, statistics_of(summary, findings, data).examples, data)
    return [card.as_dict() for card in cards[:count]]


def card_of(example: dict[str, Any], goal: str = "") -> PairCard:
    """An example of a summary or of an event, ready to show; of texts the member that got `goal` first."""
    if "sides" in example:
        known = {item.name: example[item.name] for item in fields(PairCard) if item.name in example}
        return PairCard(**known | {"sides": [PairSide(**side) for side in example["sides"]]})
    texts = (example["original"], example["text"], example["witness"])
    marked = marks(*texts, tuple(example["values"]))
    members = zip(("text", "witness"), (marked.text, marked.witness), strict=True)
    sides = [
        PairSide(role, [(value, True)], label, score, excerpt(parts), not goal or label == goal)
        for (role, parts), value, label, score in zip(
            members, example["values"], example["labels"], example["scores"], strict=True
        )
    ]
    row = f"row {example['seed_row'] + 1:,} of the corpus"
    as_it_is = f"{row.capitalize()} as it is, and its witness: no word was replaced."
    return PairCard(
        "",
        sorted(sides, key=lambda side: not side.got),
        example["score_of"],
        f"Original, {row}:" if marked.changes else as_it_is,
        marked.changes,
        excerpt(marked.original) if marked.changes else [],
        example["similarity"],
        has_strong_words(" ".join(texts)),
    )


def text_example(finding: "TextFinding", summary: dict[str, Any]) -> dict[str, Any]:
    """A finding in texts as a summary holds it."""
    values = (finding.value, finding.witness_value)
    changes = marks(finding.original, finding.text, finding.witness, values).changes
    score_of, scores = comparable_scores(finding.label, [finding.score, finding.witness_score], summary)
    return {
        "seed_row": finding.seed_row,
        "phase": finding.phase,
        "original": finding.original,
        "text": finding.text,
        "witness": finding.witness,
        "values": list(values),
        "labels": [finding.label, finding.witness_label],
        "score_of": score_of,
        "scores": scores,
        "changes": [list(change) for change in changes],
        "l0": finding.l0,
        "similarity": finding.similarity,
    }


def comparable_scores(label: str, scores: list[float], summary: dict[str, Any]) -> tuple[str, list[float]]:
    """A class, and the scores that a text and its witness have for it; theirs are for the text's own label.

    With two classes it is the same class for all findings, so that they compare: the unfavourable one, where the
    corpus says which that is. With more it is the text's own label.
    """
    classes = summary["dataset"]["classes"]
    if len(classes) != 2:
        return label, scores
    scored = str([name for name in classes if name != summary["dataset"]["favourable"]][-1])
    return scored, scores if scored == label else [1 - score for score in scores]


def table_cards(summary: dict[str, Any], examples: list["Example"], data: "Dataset") -> list[PairCard]:
    """People of the data as they stand there, then findings of the search, in words; no row twice."""
    from evenhand.report.statistics import Example

    indices = data.schema.protected_indices(summary["protected"])
    people = [Example(**example) for example in summary.get("people", [])]
    rows = {example.seed_row for example in people}
    found = [example for example in examples if example.seed_row not in rows]
    unread = [data.schema.index(name) for name in summary["model"].get("unread", {})]
    return [table_card(example, data, indices, unread) for example in [*people, *found][:MOST_SHOWN]]


def table_card(example: "Example", data: "Dataset", protected: list[int], unread: Collection[int] = ()) -> PairCard:
    """A pair of a table in words.

    What the model does not read tells nothing about its decision and is left out.
    """
    schema, exact = data.schema, example.person == "exact"
    free = [index for index in data.shown(exact=exact) if index not in protected and index not in unread]
    # With two classes both members are scored for the same class in every card, so that cards compare.
    scored = schema.label.favourable_code if len(schema.label.values) == 2 else example.label
    turned = scored != example.label
    scores = [1 - score if turned else score for score in (example.score, example.witness_score)]
    roles = ("Person" if example.person else "Sample", "Witness")
    members = [(roles[0], example.sample, example.label), (roles[1], example.witness, example.witness_label)]
    return PairCard(
        ", ".join(data.sentence(index, example.sample[index], exact=exact) for index in free),
        [
            PairSide(role, _marked(codes, example, data, protected), schema.label.text(label), score)
            for (role, codes, label), score in zip(members, scores, strict=True)
        ],
        schema.label.text(scored),
        origin(example, data),
    )


def _marked(codes: "Codes", example: "Example", data: "Dataset", protected: list[int]) -> list[tuple[str, bool]]:
    """The protected values of one member in words, each with whether the other member differs in it."""
    exact = example.person == "exact"
    return [
        (data.sentence(index, codes[index], exact=exact), example.sample[index] != example.witness[index])
        for index in protected
    ]


def origin(example: "Example", data: "Dataset") -> str:
    """How a sample relates to the row of the data that its search started from."""
    if example.seed_row < 0:
        return FROM_NOBODY
    row = f"row {example.seed_row + 1:,} of the data"
    if example.person:
        return f"{row.capitalize()}, unchanged."
    read = "" if data.is_in_domain(example.seed_row) else ", as the schema reads it"
    if changes := changes_of(example, data):
        return f"Started from {row}{read}; changed: {'; '.join(changes)}."
    return f"{row.capitalize()}{read or ', unchanged'}."


def changes_of(example: "Example", data: "Dataset") -> list[str]:
    """What differs between a sample and the row of the data that its search started from: age 30 → 31."""
    return [
        f"{attribute.title} {attribute.text(int(before))} → {attribute.text(after)}"
        for attribute, before, after in zip(
            data.schema.attributes, data.clipped[example.seed_row], example.sample, strict=True
        )
        if before != after
    ]
