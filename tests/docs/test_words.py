"""One word for one thing: the glossary's words are those in use, and pages for people have none of a programmer's."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.docs_cli import command_reference

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "evenhand"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^- \*\*([^*]+)\*\*: ", GLOSSARY, re.MULTILINE)
FORBIDDEN = re.compile(r"\b(?:success rates?|labels?(?!\.values)|labell?ed|probes?|kept out)\b", re.IGNORECASE)

CODE = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
STYLE = re.compile(r"^[^<>{}]*\{[^<>{}]*\}", re.MULTILINE)
JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
SAID_BY_TAG = re.compile(r'\b(?:alt|title|placeholder|aria-label|aria-description)="([^"]*)"')
LITERAL = re.compile(r'"([^"]*)"')
PROSE = re.compile(r"[a-z,.:;] [a-z]", re.IGNORECASE)


def said_by(template: str) -> Iterator[str]:
    """What a reader of a template's page is told: text, attributes that are read out, prose within expressions."""
    for expression in JINJA.findall(template):
        yield from (literal for literal in LITERAL.findall(expression) if PROSE.search(literal))
    page = STYLE.sub("", JINJA.sub("…", CODE.sub("", template)))
    yield from SAID_BY_TAG.findall(page)
    yield TAG.sub(" ", page)


def prose_in(module: str) -> Iterator[str]:
    """Sentences among a module's strings, its docstrings left out."""
    tree = ast.parse(module)
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {id(value) for value in statements if isinstance(value, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            text = TAG.sub(" ", node.value.replace("aria-label", ""))
            if PROSE.search(text):
                yield text


def forbidden_in(texts: Iterator[str]) -> list[str]:
    return [text.strip() for text in texts if FORBIDDEN.search(text)]


def test_what_the_test_would_notice() -> None:
    assert forbidden_in(said_by("<p>The label of {{ side.label }}</p>")) != []
    assert forbidden_in(said_by('<nav aria-label="Labels">')) != []
    assert forbidden_in(said_by('{{ field("label", "Which label it gets") }}')) != []
    assert forbidden_in(said_by('<label for="label">{{ pair.label }}</label>{{ field("label", "Decision") }}')) == []
    assert forbidden_in(prose_in('x = f"the success rate is {rate}"')) != []
    assert forbidden_in(prose_in('"""About labels of rows."""\nx = row["label"]')) == []


def test_every_term_of_the_glossary_is_in_use() -> None:
    assert {"finding", "pair", "witness", "variant", "seed", "rate", "population", "interval", "person"} < set(TERMS)
    assert len(TERMS) == len(set(TERMS))
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name != "glossary.md"]
    said = " ".join([command_reference(), *(page.read_text(encoding="utf-8") for page in pages)])
    said = re.sub(r"\s+", " ", said.lower())
    assert [term for term in TERMS if not re.search(rf"\b{term}s?\b", said)] == []


@pytest.mark.parametrize("folder", ["report", "service/pages/templates"])
def test_pages_for_people_speak_of_decisions(folder: str) -> None:
    templates = sorted((SOURCE / folder).glob("*.j2"))
    assert templates
    found = {path.name: forbidden_in(said_by(path.read_text(encoding="utf-8"))) for path in templates}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize("folder", ["report", "service/pages"])
def test_sentences_for_people_speak_of_decisions(folder: str) -> None:
    modules = sorted((SOURCE / folder).glob("*.py"))
    assert modules
    found = {path.name: forbidden_in(prose_in(path.read_text(encoding="utf-8"))) for path in modules}
    assert {name: words for name, words in found.items() if words} == {}


def test_the_help_of_commands_has_the_glossarys_words() -> None:
    """The option --label and the method named labels are names; what is said of them speaks of decisions."""
    prose = re.sub(
        r"```.*?```|`[^`]*`|--label|label\.values|\blabels, genetic\b", "", command_reference(), flags=re.DOTALL
    )
    lines = [line for line in prose.splitlines() if re.search(r"\b(?:success rates?|labels?|kept runs?)\b", line)]
    assert lines == []
