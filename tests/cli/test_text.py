"""The command line for texts as a user meets it: in this process, but through `main`, with a user's own files."""

import json
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evenhand.cli.main import main
from evenhand.text.download import PACKAGES
from tests.worlds.text_files import CLASSES, UserFiles, write_user_files

BUDGET = ["--iterations", "3", "--steps", "4", "--seeds", "12"]
LEXICON = """
name = "mine"
[[attribute]]
name = "gender"
values = ["man", "woman"]
also = { man = ["he", "father", "boy", "men", "actor", "king"], woman = ["she", "mother", "girl", "women"] }
[[attribute]]
name = "faith"
values = ["Muslim", "Christian", "Jewish"]
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """What was printed, whatever its lines."""
        return " ".join(self.out.split())


Evenhand = Callable[..., Done]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> UserFiles:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "my.toml").write_text(LEXICON)
    return write_user_files(folder, "lstm")


@pytest.fixture
def evenhand(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Evenhand:
    """Runs a command as the shell would, in a folder of its own."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    cache = tmp_path_factory.getbasetemp() / "cache"
    for name, value in (("EVENHAND_CACHE", str(cache)), ("COLUMNS", "80"), ("NO_COLOR", "1"), ("PIP_NO_INDEX", "1")):
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["evenhand", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return Done(int(end.value.code or 0), *capsys.readouterr())

    return run


def command(files: UserFiles, *more: str, **changes: str | None) -> list[str]:
    """`evenhand audit` with all that it needs, some of it changed or left out."""
    texts = {"data": files.data, "text": "comment", "label": "toxic", "protected": "gender", "encoder": "none"}
    own = {"lexicon": "my.toml", "vectors": "vec.txt", "model": "net.safetensors"}
    options = {**texts, **{name: str(files.folder / file) for name, file in own.items()}, **changes}
    given = [word for name, value in options.items() if value is not None for word in (f"--{name}", value)]
    return ["audit", *given, *BUDGET, *more]


def width(text: str) -> int:
    return max(len(line.rstrip()) for line in text.splitlines())


def test_an_audit_of_my_own_texts(files: UserFiles, evenhand: Evenhand) -> None:
    done = evenhand(*command(files, out="a"))
    assert (done.code, width(done.out) <= 80) == (0, True)
    for words in (
        "72 texts",
        "gender: one mention is given another value (2 values)",
        "pair 1",
        "report: a/report.html",
    ):
        assert words in done.text
    assert "my/gender  " in done.err
    assert "local steps 1/4" in done.err
    assert "\x1b" not in done.out + done.err
    summary = json.loads(Path("a/summary.json").read_text())
    assert summary["search"]["findings"]["total"] == len(pd.read_parquet("a/findings.parquet")) > 0
    assert summary["lexicon"]["values"] == ["man", "woman"]
    again = evenhand("report", "a", "--out", "again.html")
    assert (again.code, again.out.strip()) == (0, "again.html")
    assert Path("again.html").read_text() == Path("a/report.html").read_text()


def test_json_quiet_and_runs_that_are_kept(files: UserFiles, evenhand: Evenhand) -> None:
    done = evenhand(*command(files, "--json", "--quiet", "--method", "adf-hotflip", "--set", "local=random"))
    summary = json.loads(done.out)
    assert done.err == ""
    assert summary["config"]["settings"] == {"local": "random"}
    shown = json.loads(evenhand("runs", "show", summary["run"], "--json").out)
    assert (shown["state"], shown["place"], shown["folder"]) == ("done", "terminal", summary["folder"])
    assert (shown["result"]["texts"], shown["config"]["terminal"]["texts"]) == (True, True)
    assert shown["files"] == ["findings.index", "findings.parquet", "report.html", "summary.json"]
    quiet = evenhand(*command(files, "--quiet"))
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert not Path("evenhand-out").exists()


def test_one_audit_for_each_attribute(files: UserFiles, evenhand: Evenhand) -> None:
    done = evenhand(*command(files, "--each", "--json", protected="gender, faith", out="both"))
    assert [summary["protected"] for summary in json.loads(done.out)] == [["gender"], ["faith"]]
    assert sorted(path.name for path in Path("both").iterdir()) == ["faith", "gender"]


def test_control_c_ends_with_130(files: UserFiles, evenhand: Evenhand, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(display: object, progress: Any) -> None:
        if progress.phase == "global":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("evenhand.cli.tasks.ProgressDisplay.__call__", interrupt)
    done = evenhand(*command(files, "--each", protected="gender,faith", out="a"))
    assert done.code == 130
    assert "interrupted; what was found until then is kept" in done.text
    assert [path.name for path in Path("a").iterdir()] == ["gender"]  # the second audit does not begin


def test_training_and_using_the_result(files: UserFiles, evenhand: Evenhand) -> None:
    options = ["--text", "comment", "--label", "toxic", "--vectors", str(files.folder / "vec.txt"), "--network", "gru"]
    done = evenhand("train", "--data", files.data, *options, "--epochs", "2", "--out", "nets/mine")
    assert done.code == 0
    assert "held out  accuracy" in done.out
    assert "nets/mine.safetensors, nets/mine.json" in done.text
    assert [line.split("  ")[0] for line in done.err.splitlines()] == ["epoch 1 of 2", "epoch 2 of 2"]
    description = json.loads(Path("nets/mine.json").read_text())
    assert description["made_by"].split()[:3] == ["evenhand", "train", files.data]
    audit = evenhand(*command(files, "--json", model="nets/mine.safetensors", out="a"))
    name = str(Path("nets/mine.safetensors").resolve())
    assert json.loads(audit.out)["model"] == {"name": name, "kind": "gru", "reads": 200}
    as_json = evenhand("train", files.data, *options, "--epochs", "1", "--out", "nets/json", "--json")
    assert json.loads(as_json.out)["classes"] == CLASSES
    assert as_json.err == ""


def test_a_transformer_directory(files: UserFiles, evenhand: Evenhand, tmp_path: Path) -> None:
    tiny = pytest.importorskip("tests.worlds.tiny_transformer")
    pairs = zip(tiny.SENTENCES, tiny.LABELS, strict=True)
    frame = pd.DataFrame([(sentence, tiny.CLASSES[label]) for sentence, label in pairs], columns=["comment", "toxic"])
    frame.to_parquet(tmp_path / "mine.parquet")
    model = str(tiny.save_tiny(tmp_path / "model", "wordpiece"))
    done = evenhand(
        *command(files, "--json", data=str(tmp_path / "mine.parquet"), protected="faith", model=model, out="a")
    )
    summary = json.loads(done.out)
    assert (summary["model"]["kind"], summary["model"]["reads"]) == ("transformer", tiny.LONGEST - 2)
    findings = pd.read_parquet("a/findings.parquet")
    assert len(findings) > 0
    module, tokenizer = tiny.transformers.BertForSequenceClassification.from_pretrained(model), tiny.wordpiece()
    for row in findings.itertuples():
        labels = [module(**tokenizer(text, return_tensors="pt")).logits.argmax() for text in (row.text, row.witness)]
        assert [tiny.CLASSES[int(label)] for label in labels] == [row.label, row.witness_label]


@pytest.fixture(scope="module")
def wrong(files: UserFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with something wrong about each."""
    folder = tmp_path_factory.mktemp("wrong")
    people = "".join(f'"the boy number {number}","{number % 2}"\n' for number in range(20))
    (folder / "other.csv").write_text("comment,toxic\n" + people)
    (folder / "one.csv").write_text("comment,toxic\n" + people.replace('"1"', '"0"'))
    (folder / "empty.csv").write_text("comment,toxic\n" + '"",not toxic\n" ",toxic\n' * 9)
    (folder / "latin.csv").write_bytes("comment,toxic\nthe garçon,toxic\na boy,not toxic\n".encode("latin-1"))
    (folder / "one.toml").write_text('name = "one"\n[[attribute]]\nname = "gender"\nvalues = ["man"]\n')
    shutil.copy(files.folder / "vec.txt", folder / "vectors.txt")
    for name, held in (("nothing", ()), ("pickled", ("config.json", "pytorch_model.bin"))):
        (folder / name).mkdir()
        for file in held:
            (folder / name / file).write_text("{}")
    return folder


MISTAKES: list[tuple[dict[str, str | None], str]] = [
    ({"protected": "disability", "lexicon": None}, "No training text of my mentions disability in its first 12 words"),
    ({"data": "{}/empty.csv"}, "No training text of empty mentions gender"),
    ({"data": "{}/one.csv"}, "one.csv, column 'toxic': every label is '0'"),
    ({"data": "{}/latin.csv"}, "latin.csv is not UTF-8: line 2 holds the byte 0xe7"),
    ({"data": "{}/other.csv"}, "is for other data: its classes are ['not toxic', 'toxic'], but those of this audit"),
    ({"data": "{}/absent.csv"}, "absent.csv does not exist"),
    ({"data": None}, "Name the data once"),
    ({"data": "wikki"}, "There is no corpus 'wikki'. Did you mean 'wiki'?"),
    ({"data": "wikki", "text": None, "label": None}, "There is no data set 'wikki'. Did you mean 'wiki'?"),
    ({"data": "census", "text": None, "label": None}, "--lexicon is for texts, and this is a table"),
    ({"data": "wiki"}, "The corpus 'wiki' is built in and has its own columns"),
    ({"text": "words"}, "my.csv has no column 'words'. It has: comment, toxic"),
    ({"label": "words"}, "my.csv has no column 'words'"),
    ({"favourable": "kind"}, "'kind' is not a label of"),
    ({"lexicon": "{}/one.toml"}, "'gender' needs at least two values"),
    ({"lexicon": "papers"}, "There is no lexicon 'papers'. Did you mean 'paper'?"),
    ({"protected": "gendre"}, "in the lexicon mine called 'gendre'. Did you mean 'gender'?"),
    ({"protected": None}, "Say which words are protected: --protected with one of gender, faith"),
    ({"protected": "gender,faith"}, "one protected attribute at a time"),
    ({"method": "adf"}, "There is no method for text 'adf'. Did you mean 'adf-asc'?"),
    ({"set": "speed=3"}, "There is no setting of method boundary called 'speed'"),
    ({"encoder": "glove"}, "The setting 'encoder' is 'glove'"),
    ({"min-similarity": "0.9"}, "A least similarity needs a sentence encoder"),
    ({"moves": "letters"}, "The setting 'moves' is 'letters'"),
    ({"swap": "some"}, "The setting 'swap' is 'some'"),
    ({"ambiguous": "drop"}, "The setting 'ambiguous' is 'drop'"),
    ({"k": "0"}, "The setting 'k' is 0"),
    ({"vectors": "{}/absent.txt"}, "absent.txt do not exist"),
    ({"vectors": "{}/vectors.txt"}, "is for other data: its vectors are vec, but those of this audit are vectors"),
    ({"network": "gru"}, "--network names a built-in network and --model one of your own"),
    ({"network": "rnn", "model": None}, "There is no network 'rnn'"),
    ({"model": None}, "There is no built-in network for 'my'"),
    ({"model": "my_models:load"}, "'my_models:load' is not a model of text"),
    ({"model": "{}/absent.safetensors"}, "There is no file"),
    ({"model": "{}/nothing"}, "There is no config.json in"),
    ({"model": "{}/pickled"}, "but pytorch_model.bin, which could run code when read"),
    ({"output": "logits"}, "--output is for tables, and these are texts"),
    ({"device": "cuda:7"}, "CUDA"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_mistakes_end_with_a_message_and_exit_code_2(
    files: UserFiles, wrong: Path, evenhand: Evenhand, changes: dict[str, str | None], message: str
) -> None:
    placed = {name: value and value.replace("{}", str(wrong)) for name, value in changes.items()}
    done = evenhand(*command(files, **placed))
    assert done.code == 2, done
    assert message in done.err
    assert done.err.startswith("error: ")
    assert (done.err.count("\n"), done.out) == (1, "")  # one message and nothing else
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "wiki", "--data", "wiki", "-p", "religion"], "Name the data once"),
        (["audit", "wiki", "-p", "religion", "--network", "rnn"], "There is no network 'rnn'"),
        (["audit", "wiki", "-p", "religion", "--method", "hotflop"], "Did you mean 'hotflip'?"),
        (["audit", "wiki", "-p", "religion"], "Cannot download aif360"),
        (["train", "wiki", "--patience", "3"], "--patience is for tables"),
        (["train", "wiki", "--network", "rnn"], "There is no network 'rnn'"),
        (["train", "census", "--network", "gru"], "--network is for texts, and this is a table"),
        (["data", "show", "wki"], "Did you mean 'wiki'?"),
        (["data", "lexicon", "papers"], "Did you mean 'paper'?"),
        (["data", "lexicon", "paper", "gender"], "in the lexicon paper called 'gender'"),
    ],
)
def test_mistakes_without_files_of_my_own(evenhand: Evenhand, arguments: list[str], message: str) -> None:
    done = evenhand(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert list(Path().iterdir()) == []


def test_a_corrupt_download_is_thrown_away(evenhand: Evenhand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path))
    wheel = tmp_path / PACKAGES["aif360"].file
    wheel.write_bytes(b"half of a wheel")
    done = evenhand("audit", "wiki", "-p", "religion")
    assert done.code == 2
    assert "A file of that name was there but had another checksum" in done.err
    assert str(wheel) in done.err
    assert list(tmp_path.iterdir()) == []


def test_what_there_is_can_be_seen_without_a_download(evenhand: Evenhand, tmp_path: Path, files: UserFiles) -> None:
    listed = evenhand("data", "list")
    for words in (
        "159,686 texts",
        "56 MB, not downloaded yet",
        "CC BY-SA 3.0",
        "country (160 values)",
        "48,842 people",
    ):
        assert words in listed.text
    content = json.loads(evenhand("data", "list", "--json").out)
    assert [card["name"] for card in content["corpora"]] == ["wiki", "jigsaw"]
    assert [card["name"] for card in content["lexicons"]] == ["evenhand", "paper"]
    shown = evenhand("data", "show", "wiki")
    assert "127,820 train, 31,866 held out" in shown.text
    assert json.loads(evenhand("data", "show", "jigsaw", "--json").out)["downloaded"] is False
    own = ["data", "lexicon", str(files.folder / "my.toml")]
    assert "faith Muslim, Christian, Jewish" in evenhand(*own).text
    assert json.loads(evenhand(*own, "gender", "--json").out)["words"]["woman"][:2] == ["woman", "she"]
    religion = evenhand("data", "lexicon", "evenhand", "religion")
    others = [evenhand("data", "lexicon", *more) for more in ([], ["paper"], ["--help"])]
    for printed in (listed, shown, religion, *others):
        assert (printed.code, width(printed.out) <= 80) == (0, True)
    assert not (tmp_path.parent / "cache" / PACKAGES["aif360"].file).exists()
