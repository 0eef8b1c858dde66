"""Checks of texts: the rate counted by hand, the pairs, stored failures, a gate file with both kinds, the plugin."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
import torch
import typer
from lxml import etree
from scipy.stats import beta
from typer.testing import CliRunner, Result

import evenhand
from evenhand.cli.gate import gate
from evenhand.errors import EvenhandError
from evenhand.gate.check import DiscriminationFound, run_check
from evenhand.gate.config import GateFile
from evenhand.gate.outcome import Outcome
from evenhand.models.text.recurrent import Recurrent, load_recurrent, save_recurrent
from evenhand.report.text_statistics import TextFinding
from evenhand.text.corpus import Corpus
from evenhand.text.lexicon import ProtectedWords, load_lexicon
from evenhand.text.tokens import tokenize
from tests.gate.test_gate import DEFAULTS, EXCEEDED, HELD, MODELS
from tests.worlds.doc_blocks import blocks_of
from tests.worlds.text_files import MOST_WORDS, UserFiles, write_user_files
from tests.worlds.text_search import plain_label

pytestmark = pytest.mark.usefixtures("own_cache")
pytest_plugins = ["pytester"]
SCHEMAS = Path(__file__).parent / "schemas"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> UserFiles:
    return write_user_files(tmp_path_factory.mktemp("mine"))


@pytest.fixture(scope="module")
def calm(files: UserFiles) -> str:
    """A network that reads every word and never says toxic."""
    return shifted(files, "calm", lambda network: network.head.bias.copy_(torch.tensor([9.0, -9.0])))


def shifted(files: UserFiles, name: str, change: Any) -> str:
    network, description = load_recurrent(files.folder / "net")
    with torch.no_grad():
        change(network)
    save_recurrent(network, description, files.folder / name)
    return str(files.folder / f"{name}.safetensors")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def options(files: UserFiles) -> dict[str, Any]:
    return {name: value for name, value in files.options.items() if name not in ("model", "encoder")}


def checked(files: UserFiles, protected: str | None = "religion", *, data: Any = None, **settings: Any) -> Outcome:
    model = settings.pop("model", files.options["model"])
    about = options(files) if data is None else {"vectors": options(files)["vectors"]}
    return run_check(model, files.data if data is None else data, protected, **(about | settings))


def variants_by_hand(text: str, words: ProtectedWords, swap: str = "one") -> list[str]:
    """What a text becomes when one mention, or all of a value, are replaced where they stand."""
    tokens, found = tokenize(text), []
    mentions = [mention for mention in words.mentions(tokens) if mention.end <= MOST_WORDS]
    for first in mentions:
        group = [mention for mention in mentions if mention.value == first.value] if swap == "all" else [first]
        for value in {*range(len(words.values))} - {first.value}:
            terms = [words.replacement_words(mention, value) for mention in group]
            if all(terms):
                variant = text
                for mention, term in reversed(list(zip(group, terms, strict=True))):
                    begin, end = tokens.spans[mention.start][0], tokens.spans[mention.end - 1][1]
                    variant = variant[:begin] + " ".join(term or []) + variant[end:]
                found.append(variant)
    return found


def texts_by_hand(
    corpus: Corpus, network: Recurrent, vectors: Any, attribute: str, swap: str = "one"
) -> dict[tuple[str, ...], tuple[str, bool]]:
    """Texts that mention an attribute, by their other words, and whether some variant gets another label."""
    words, found = load_lexicon().attributes[attribute], dict[tuple[str, ...], tuple[str, bool]]()
    for row in range(len(corpus)):
        tokens = tokenize(corpus.text(row))
        mentions = [mention for mention in words.mentions(tokens) if mention.end <= MOST_WORDS]
        others = variants_by_hand(tokens.text, words, swap)
        if not others:
            continue
        terms = {place for mention in mentions for place in range(mention.start, mention.end)}
        rest = tuple("" if place in terms else word for place, word in enumerate(tokens.words))
        labels = {plain_label(network, vectors, text) for text in [tokens.text, *others]}
        found.setdefault(rest, (tokens.text, len(labels) > 1))
    return found


def by_hand(files: UserFiles, attribute: str, swap: str = "one") -> dict[str, bool]:
    return dict(texts_by_hand(files.corpus, files.network, files.vectors, attribute, swap).values())


def without_pairs(files: UserFiles, attribute: str) -> Corpus:
    """The texts of which none is discriminatory as it is."""
    calm_texts = [text for text, hit in by_hand(files, attribute).items() if not hit]
    rows = [row for row in range(len(files.corpus)) if files.corpus.text(row) in calm_texts]
    corpus = files.corpus
    return replace(corpus, texts=corpus.texts.take(rows), labels=corpus.labels[rows], train=corpus.train[rows])


# --- verdicts ---


@pytest.mark.parametrize(
    ("attribute", "swap"), [("religion", "one"), ("nationality", "one"), ("gender", "one"), ("gender", "all")]
)
def test_the_rate_is_that_of_all_texts_counted_by_hand(files: UserFiles, attribute: str, swap: str) -> None:
    truth = by_hand(files, attribute, swap)
    outcome = checked(files, attribute, swap=swap, max_rate=0.01, failures=None)
    rate, hits, samples = outcome.rate, sum(truth.values()), len(truth)
    assert rate is not None
    assert (rate.discriminatory, rate.samples) == (hits, samples)
    assert rate.population == f"all {samples} texts of my that mention {attribute}"
    low = beta.ppf(0.05, hits, samples - hits + 1) if hits else 0.0
    assert rate.interval == pytest.approx((low, beta.ppf(0.95, hits + 1, samples - hits)))
    assert outcome.verdict == ("exceeded" if low > 0.01 else "not shown")
    assert outcome.model_rows >= samples
    if hits:  # elsewhere a search finds some to show
        assert {pair.example.text for pair in outcome.pairs} <= {text for text, hit in truth.items() if hit}
        assert len(outcome.pairs) == min(3, hits)


def test_verdicts_are_those_of_the_bounds(files: UserFiles) -> None:
    outcome = checked(files, "nationality", failures=None)
    low, high = outcome.interval or (0.0, 0.0)
    verdicts = [checked(files, "nationality", max_rate=rate, failures=None).verdict for rate in (low * 0.99, low, high)]
    assert verdicts == ["exceeded", "not shown", "held"]
    assert checked(files, "nationality", max_rate=low, undecided="pass", failures=None).passed
    with pytest.raises(DiscriminationFound, match=r"EXCEEDED: .* when only nationality changes"):
        evenhand.assert_fair(files.options["model"], files.data, "nationality", failures=None, **options(files))


def test_a_random_part_is_called_so(files: UserFiles) -> None:
    runs = [checked(files, most_samples=5, max_rate=0.3, seed=seed, failures=None) for seed in (0, 1, 2, 3, 0)]
    rates = [run.rate for run in runs if run.rate is not None]
    assert {rate.samples for rate in rates} == {5}
    assert {rate.population for rate in rates} == {"a random part of the texts of my that mention religion"}
    assert len({rate.discriminatory for rate in rates}) > 1
    assert runs[0].pairs == runs[-1].pairs
    undecided = next(str(DiscriminationFound(run)) for run in runs if run.verdict == "not shown")
    assert "raise most_samples, which is 5." in undecided
    whole = checked(files, most_samples=len(by_hand(files, "religion")), max_rate=0.3, failures=None)
    assert whole.rate is not None
    assert whole.rate.population.startswith("all ")


def test_a_corpus_in_memory_and_texts_without_a_split(files: UserFiles) -> None:
    from_file, in_memory = (checked(files, failures=None, data=data) for data in (None, files.corpus))
    assert (from_file.rate, from_file.verdict) == (in_memory.rate, in_memory.verdict)
    held_out = replace(files.corpus, train=np.zeros(len(files.corpus), dtype=bool))
    assert checked(files, failures=None, data=held_out).rate == from_file.rate


def test_a_hugging_face_directory(files: UserFiles, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.worlds.tiny_transformer import PEOPLE, SENTENCES, save_tiny

    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(f'"{text}",not toxic\n' for text in SENTENCES[:-1]))
    with (tmp_path / "texts.csv").open("a") as stream:
        stream.write(f'"{SENTENCES[-1]}",toxic\n')
    model = save_tiny(tmp_path / "tiny", "wordpiece")
    outcome = checked(files, data=tmp_path / "texts.csv", model=str(model), max_rate=0.2, failures=None)
    assert outcome.rate is not None
    assert outcome.rate.samples == len(SENTENCES) / len(PEOPLE)
    assert outcome.model == str(model)


def test_nothing_is_allowed_and_nothing_found(files: UserFiles, calm: str) -> None:
    outcome = checked(files, model=calm, max_rate=0)
    assert (outcome.verdict, outcome.passed) == ("held", True)
    assert outcome.searched is not None
    assert outcome.searched.generated > 0
    assert "nor any of" in repr(outcome)
    assert "samples of a search (boundary). That the rate is zero cannot be shown by samples" in repr(outcome)
    assert checked(files, model=calm, max_rate=0, search=False).searched is None


def test_a_search_finds_what_the_texts_do_not_show(files: UserFiles) -> None:
    corpus = without_pairs(files, "religion")
    outcome = checked(files, data=corpus, max_rate=0)
    assert (outcome.verdict, outcome.rate and outcome.rate.discriminatory) == ("exceeded", 0)
    message = str(DiscriminationFound(outcome))
    assert "None of all 10 texts of my that mention religion gets another decision" in message
    assert "but a search (boundary) found" in message
    assert len(outcome.pairs) == 3
    for pair in outcome.pairs:
        assert corpus.text(pair.example.seed_row) == pair.example.original
        assert pair.origin.startswith(f"A text of the corpus, row {pair.example.seed_row + 1}, with ")
        assert is_discriminatory(files, pair.example.text)
        assert not any(is_discriminatory(files, text) for text in one_word_back(pair.example))
    assert checked(files, data=corpus, max_rate=0, search=False, failures=None).verdict == "held"


def is_discriminatory(files: UserFiles, text: str, attribute: str = "religion") -> bool:
    others = variants_by_hand(text, load_lexicon().attributes[attribute])
    return len({plain_label(files.network, files.vectors, of) for of in [text, *others]}) > 1


def one_word_back(pair: TextFinding) -> Iterator[str]:
    before, after = tokenize(pair.original), tokenize(pair.text)
    changed = [place for place, words in enumerate(zip(before.words, after.words, strict=True)) if len({*words}) > 1]
    assert len(changed) == pair.l0 > 0
    for place in changed:
        begin, end = after.spans[place]
        yield after.text[:begin] + before.surface(place, place + 1) + after.text[end:]


# --- what was not tested does not pass ---


@pytest.mark.parametrize("undecided", ["fail", "pass"])
def test_an_attribute_that_no_text_mentions_is_not_tested(files: UserFiles, undecided: str) -> None:
    corpus = replace(files.corpus, texts=files.corpus.texts.take([3, 5, 3, 5]), labels=np.array([0, 1, 0, 1]))
    corpus = replace(corpus, train=np.array([True, False, True, True]))
    outcome = checked(files, data=corpus, max_rate=0.9, undecided=undecided)
    assert (outcome.verdict, outcome.passed, outcome.rate) == ("not tested", False, None)
    assert outcome.untested == ["religion"]
    assert "No text of my mentions religion in its first 12 words. The lexicon looks for: " in repr(outcome)


def test_a_model_that_does_not_read_the_words_is_not_tested(files: UserFiles) -> None:
    constant = shifted(files, "constant", lambda network: network.head.weight.zero_())
    outcome = checked(files, model=constant, max_rate=0.9)
    assert (outcome.verdict, outcome.passed, outcome.rate) == ("not tested", False, None)
    assert "The model scores texts alike whatever words of religion they mention" in repr(outcome)


KINGS = """
name = "kings"

[[attribute]]
name = "gender"
values = ["male", "female"]
[[attribute.form]]
name = "parent"
[attribute.form.words]
male = ["father"]
female = ["mother"]
[[attribute.form]]
name = "ruler"
[attribute.form.words]
male = ["king"]
"""


def test_with_all_mentions_together_only_texts_with_a_variant_count(files: UserFiles, tmp_path: Path) -> None:
    (tmp_path / "kings.toml").write_text(KINGS)
    texts = ["The king is my father.", "The king is the father of a king.", "My mother wrote a song."]
    corpus = replace(files.corpus, texts=pa.array(texts, pa.large_string()), labels=np.array([0, 1, 0]))
    corpus, lexicon = replace(corpus, train=np.array([True, False, True])), str(tmp_path / "kings.toml")
    about: dict[str, Any] = {"lexicon": lexicon, "failures": None, "search": False}
    every = [checked(files, "gender", data=corpus, swap=swap, **about) for swap in ("one", "all")]
    assert [outcome.rate and outcome.rate.samples for outcome in every] == [3, 1]
    kings = replace(corpus, texts=corpus.texts[:2], labels=corpus.labels[:2], train=corpus.train[:2])
    none = checked(files, "gender", data=kings, swap="all", max_rate=0.9, undecided="pass", **about)
    assert (none.verdict, none.passed) == ("not tested", False)


# --- stored failures ---


def test_failing_pairs_are_stored_as_texts_and_replayed_first(files: UserFiles, calm: str) -> None:
    first = checked(files, max_rate=0, name="religion")
    content = json.loads(Path(".evenhand/religion.json").read_text())
    assert (content["kind"], content["protected"], content["lexicon"]["name"]) == (
        "failing pairs", ["religion"], "evenhand",
    )  # fmt: skip
    texts = {pair["text"]: pair for pair in content["pairs"]}
    assert texts.keys() == {pair.example.text for pair in first.pairs}
    for pair in content["pairs"]:
        assert files.corpus.text(pair["row"] - 1) == pair["original"] == pair["text"]
        labels = [plain_label(files.network, files.vectors, pair[member]) for member in ("text", "witness")]
        assert [files.corpus.classes[label] for label in labels] == [pair["label"], pair["witness_label"]]
    again = checked(files, data=without_pairs(files, "religion"), max_rate=0, name="religion")
    assert (again.rate, again.replayed) == (None, (3, 3))
    message = str(DiscriminationFound(again))
    assert "3 of 3 stored pairs, replayed first, still get another decision" in message
    assert "A text of an earlier run, as it was written." in message
    allowed = checked(files, max_rate=0.9, name="religion")
    assert (allowed.verdict, allowed.replayed, allowed.stored_in) == ("held", (3, 3), ".evenhand/religion.json")
    repaired = checked(files, model=calm, max_rate=0, name="religion")
    assert (repaired.verdict, repaired.replayed) == ("held", (3, 0))
    assert not Path(".evenhand/religion.json").exists()


def test_found_pairs_are_replayed_with_the_words_that_were_replaced(files: UserFiles) -> None:
    corpus = without_pairs(files, "religion")
    first, second = (checked(files, data=corpus, max_rate=0, name="found") for _ in range(2))
    assert (second.rate, second.searched) == (None, None)
    assert {pair.origin for pair in second.pairs} == {pair.origin for pair in first.pairs}


def test_stored_pairs_that_mean_something_else_are_left_alone(files: UserFiles) -> None:
    checked(files, max_rate=0, name="mine")
    path = Path(".evenhand/mine.json")
    before = path.read_text()
    other = checked(files, max_rate=0.9, name="mine", ambiguous="exclude")
    assert "belong to another lexicon" in other.notes[0]
    path.write_text(before.replace('["religion"]', '["gender"]').replace('"religion"', '"gender"'))
    assert "change other attributes" in checked(files, max_rate=0.9, name="mine").notes[0]
    for broken in ("{", before.replace('"pairs": [', '"pairs": [3, '), before.replace('"original"', '"orig"')):
        path.write_text(broken)
        assert "cannot be read" in checked(files, max_rate=0.9, name="mine").notes[0]
        assert path.read_text() == broken


# --- settings ---


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"inputs": "codes"}, "'inputs' is for tables, and these are texts. Leave it out."),
        ({"output": "logits"}, "'output' is for tables"),
        ({"threshold": 0.3}, "'threshold' is for tables"),
        ({"within": {"age": 3}}, "'within' is for tables"),
        ({"accept_poor_model": True}, "'accept_poor_model' is for tables"),
        ({"changes": 3}, "'changes' is for tables"),
        ({"population": "uniform"}, "texts have no population 'uniform'"),
        ({"population": "neighbourhood"}, "texts have no population 'neighbourhood'"),
        ({"population": "everyone"}, "population"),
        ({"protected": "religion,gender"}, "religion, gender are several. Write a check for each."),
        ({"protected": "height"}, "height"),
        ({"protected": None}, "protected"),
        ({"search": {"method": "margin"}, "max_rate": 0, "model": "calm"}, "margin"),
    ],
)
def test_what_is_for_tables_is_refused(files: UserFiles, calm: str, settings: dict[str, Any], words: str) -> None:
    given = settings | ({"model": calm} if "model" in settings else {})
    with pytest.raises(EvenhandError, match=words):
        checked(files, given.pop("protected", "religion"), failures=None, **given)


@pytest.mark.parametrize("setting", [{"swap": "all"}, {"lexicon": "paper"}, {"vectors": "glove"}, {"k": 3}])
def test_what_is_for_texts_is_refused_for_tables(setting: dict[str, Any]) -> None:
    with pytest.raises(EvenhandError, match=f"'{next(iter(setting))}' is for texts, and this is a table"):
        run_check(None, "census", "sex", failures=None, **setting)


# --- the gate file ---


@pytest.fixture
def folder(files: UserFiles, schema_file: Path, monkeypatch: pytest.MonkeyPatch, calm: str) -> Path:
    """A gate file's folder, with a table, texts, and models of both."""
    assert calm
    for file in files.folder.iterdir():
        (schema_file.parent / file.name).write_bytes(file.read_bytes())
    (schema_file.parent / "gate_models.py").write_text(MODELS)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "gate_models", raising=False)
    return schema_file.parent


ABOUT_TEXTS = 'text = "comment"\nlabel = "toxic"\nvectors = "vec.txt"\n'
TEXTS = (
    '[[check]]\nname = "comments"\ndata = "my.csv"\nmodel = "net.safetensors"\nprotected = ["religion"]\n'
    'favourable = "not toxic"\n'
)
CALM = TEXTS.replace("comments", "calm").replace("net.", "calm.") + "max_rate = 0.2\n"
ABSENT = TEXTS.replace("comments", "absent") + 'lexicon = "own.toml"\nmax_rate = 0.2\n'
OWN_LEXICON = """
name = "own"
title = "Of my own"
source = "me"

[[attribute]]
name = "religion"
values = ["zoroastrian", "shintoist"]
"""


def run(folder: Path, text: str, *arguments: str) -> Result:
    (folder / "gate.toml").write_text(text)
    app = typer.Typer()
    app.command()(gate)
    return CliRunner().invoke(app, [str(folder / "gate.toml"), *arguments])


@pytest.mark.parametrize(
    ("checks", "statuses", "code"),
    [
        ([HELD, CALM], ["held", "held"], 0),
        ([HELD, TEXTS], ["held", "exceeded"], 1),
        ([EXCEEDED, CALM], ["exceeded", "held"], 1),
        ([CALM, TEXTS + 'model_ = "x"\n'], [], 2),
        ([CALM.replace("calm.", "gone."), HELD], ["error", "held"], 2),
    ],
)
def test_one_gate_file_for_both_kinds(
    folder: Path, capsys: pytest.CaptureFixture[str], checks: list[str], statuses: list[str], code: int
) -> None:
    done = run(folder, ABOUT_TEXTS + DEFAULTS + "\n".join(checks), "--json")
    if not statuses:
        assert "there is no setting called 'model_'; did you mean 'model'?" in str(done.exception)
        return
    assert done.exit_code == code, (done.output, capsys.readouterr())
    assert [check["verdict"] for check in json.loads(done.stdout)["checks"]] == statuses


def test_every_output_has_the_texts(folder: Path) -> None:
    names = ("junit", "sarif", "markdown")
    places = [word for name in names for word in (f"--{name}", str(folder / f"out.{name}"))]
    done = run(folder, ABOUT_TEXTS + DEFAULTS + HELD + TEXTS, "--annotations", *places)
    assert done.exit_code == 1
    junit, sarif, markdown = ((folder / f"out.{name}").read_text() for name in names)
    etree.XMLSchema(etree.parse(SCHEMAS / "junit-4.xsd")).assertValid(etree.fromstring(junit.encode()))
    log = json.loads(sarif)
    jsonschema.Draft202012Validator(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())).validate(log)
    stored = json.loads(next((folder / ".evenhand").iterdir()).read_text())["pairs"]
    words = " ".join(stored[0]["text"].split()[-2:])
    (failure,) = ElementTree.fromstring(junit).iter("failure")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    (_, result) = log["runs"][0]["results"]  # the table's check held with a warning
    for output in (failure.text or "", result["message"]["text"], markdown, line):
        assert words in output
        assert "texts of my that mention religion get another decision" in output
    assert "| comments | **exceeded** |" in markdown
    facts = [{each.get("name"): each.get("value") for each in suite.iter("property")}
             for suite in ElementTree.fromstring(junit).iter("testsuite")]  # fmt: skip
    assert facts[1]["population"] == "all 15 texts of my that mention religion"
    assert "comments, texts: 15 of 15" in done.stderr


def test_files_of_texts_are_found_beside_the_gate_file(folder: Path) -> None:
    (folder / "own.toml").write_text(OWN_LEXICON)
    (folder / "gate.toml").write_text(ABOUT_TEXTS + DEFAULTS + ABSENT + HELD)
    texts, table = GateFile.load(folder / "gate.toml").checks
    said = texts.said
    assert [said[name] for name in ("model", "lexicon", "vectors")] == [
        str(folder / name) for name in ("net.safetensors", "own.toml", "vec.txt")
    ]
    assert texts.data == str(folder / "my.csv")
    assert table.said.keys().isdisjoint({"text", "label", "vectors"})
    assert texts.said.keys().isdisjoint({"inputs", "accept_poor_model"})
    done = run(folder, ABOUT_TEXTS + DEFAULTS + ABSENT, "--json", "--markdown", str(folder / "out.md"))
    assert done.exit_code == 1
    assert json.loads(done.stdout)["checks"][0]["verdict"] == "not tested"
    assert (
        "Some checks were not tested: the model does not read what they would change, or no text mentions it."
        in (folder / "out.md").read_text()
    )


def test_a_builtin_corpus_is_known_by_its_name(folder: Path) -> None:
    (folder / "gate.toml").write_text('[[check]]\nname = "wiki"\ndata = "wiki"\nprotected = ["religion"]\n')
    (entry,) = GateFile.load(folder / "gate.toml").checks
    assert (entry.data, entry.settings.most_samples) == ("wiki", 10_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXTS + 'inputs = "codes"', "line 7, column 1: The setting 'inputs' is for tables, and these are texts."),
        (HELD + 'swap = "all"', "line 5, column 1: The setting 'swap' is for texts, and this is a table."),
        (TEXTS + 'population = "uniform"', "line 7, column 1: population: texts have no population 'uniform'"),
        ('population = "uniform"\n' + HELD + TEXTS, "population: texts have no population 'uniform'"),
        (TEXTS.replace('["religion"]', '["religion", "gender"]'), "protected: it takes at most 1 entry, not 2."),
        (TEXTS.replace('protected = ["religion"]\n', ""), "line 1, column 1: protected: it is needed, but missing"),
        (TEXTS + 'swap = "some"', "line 7, column 1: swap: it must be 'one' or 'all'"),
        ('swop = "all"\n' + TEXTS, "line 1, column 1: swop: there is no setting called 'swop'; did you mean 'swap'?"),
        (TEXTS + 'dataset = "x"', "line 7, column 1: there is no such setting"),
    ],
)
def test_a_wrong_gate_file_is_refused_with_the_place(folder: Path, text: str, words: str) -> None:
    (folder / "gate.toml").write_text(text)
    with pytest.raises(EvenhandError) as caught:
        GateFile.load(folder / "gate.toml")
    assert words in str(caught.value)


def test_the_gate_file_of_the_page_is_right(tmp_path: Path) -> None:
    (block,) = [block for block in blocks_of("docs/gate.md") if block.marks.get("file") == "texts.toml"]
    (tmp_path / "gate.toml").write_text(block.text)
    texts, table = GateFile.load(tmp_path / "gate.toml").checks
    assert (texts.said["swap"], texts.said["text"], texts.data) == ("all", "comment", str(tmp_path / "comments.csv"))
    assert table.said == {"protected": ["sex"], "max_rate": 0.1}


# --- the plugin ---


def test_the_fixture_checks_texts_and_replays_them(
    files: UserFiles, calm: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    test = f"""
import pytest
pytestmark = pytest.mark.evenhand(protected=["religion"], **{options(files)!r})

def test_calm(evenhand_check):
    assert evenhand_check({calm!r}, {files.data!r}, max_rate=0.2).verdict == "held"

@pytest.mark.evenhand(max_rate=0)
def test_texts(evenhand_check):
    evenhand_check({{model!r}}, {files.data!r})
"""
    plugin = ("-p", "evenhand.pytest_plugin", "--strict-markers", "-p", "no:cacheprovider")
    results = []
    for model in (files.options["model"], files.options["model"], calm):
        pytester.makepyfile(test_texts=test.replace("{model!r}", repr(model)))
        results.append(pytester.runpytest_inprocess(*plugin))
    for result, failed in zip(results, (1, 1, 0), strict=True):
        result.assert_outcomes(passed=2 - failed, failed=failed)
    first, second, _ = (result.stdout.str() for result in results)
    assert "33.33% of all 15 texts of my that mention religion get another decision when only religion changes" in first
    assert "stored pairs, replayed first" in second
    results[0].stdout.fnmatch_lines(["test_texts.py::test_calm  held: 0.00% of all 15 texts of my that mention *"])
    assert not list((pytester.path / ".evenhand").iterdir())
    assert all(one != other for one, other in pairwise([first, second]))
