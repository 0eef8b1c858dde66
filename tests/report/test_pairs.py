"""The card of a pair: the same for tables and for texts, in reports and on the pages of the service."""

from typing import Any

import pytest

from evenhand.report.page import template
from evenhand.report.pairs import PairCard, PairSide, card_of, text_example
from evenhand.report.sentences import example_lines
from evenhand.service.pages.view import environment
from tests.report.test_report import Page
from tests.worlds.text_report import UNSAFE, finding, made_findings, made_summary

TABLE = PairCard(
    f"age 30, {UNSAFE}",
    [
        PairSide("Person", [("female", True), ("White", False)], "refused", 0.25),
        PairSide("Witness", [("male", True), ("White", False)], "granted", 0.75),
    ],
    "granted",
    "Row 7 of the data, unchanged.",
)


def text_card(**changes: Any) -> PairCard:
    return card_of(text_example(finding(**changes), made_summary(made_findings(10, 4))), "not toxic")


TEXTS = {
    "plain": {},
    "strong": {"text": f"stupid {UNSAFE} Christian music", "witness": f"stupid {UNSAFE} Muslim music"},
}


@pytest.mark.parametrize("card", [TABLE, *(text_card(**changes) for changes in TEXTS.values())])
def test_a_card_can_be_stored_and_is_shown_alike_everywhere(card: PairCard) -> None:
    again = card_of(card.as_dict() | {"number": 3})  # as an event of a run has it
    assert again == card
    call = "{% from PLACE import pair_card %}{{ pair_card(card, 3) }}"
    report = template("report.html.j2").environment.from_string(call.replace("PLACE", "'pair.html.j2'"))
    pages = environment().from_string(call.replace("PLACE", "'report/pair.html.j2'"))
    html = report.render(card=card)
    assert html == pages.render(card=again)
    page = Page(html)
    assert page.tags["b"] == 0
    for side in card.sides:
        assert side.label in page.text
        assert all(value in page.text for value, _ in side.protected)
    assert page.tags["input"] == card.strong == ("stupid" in page.text)


def test_a_summary_of_a_table_holds_what_it_always_held() -> None:
    stored = TABLE.as_dict()
    assert set(stored) == {"description", "sides", "score_of", "origin"}
    assert {name for side in stored["sides"] for name in side} == {"role", "protected", "label", "score"}
    assert example_lines(stored) == [
        f"age 30, {UNSAFE}",
        "female, White: refused (score for ‘granted’ 25.0%)",
        "male, White: granted (score for ‘granted’ 75.0%)",
        "Row 7 of the data, unchanged.",
    ]
