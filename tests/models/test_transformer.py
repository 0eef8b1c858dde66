from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from evenhand.errors import EvenhandError
from evenhand.methods.boundary import Boundary
from evenhand.methods.text_adf import RandomPerturbation, TextADF
from evenhand.models.classifier import GradientOf, OutOfRows
from evenhand.models.text.transformer import TransformerClassifier, load_transformer, longest, render_with_spans
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search
from evenhand.search.text_space import CODES, NO_GROUP, SOURCE, SWAP, TextSpace
from evenhand.text.tokens import tokenize
from tests.worlds.tiny_transformer import (
    CLASSES,
    LONG,
    LONGEST,
    NEAREST,
    PEOPLE,
    TEXTS,
    Kind,
    byte_level,
    rendered,
    samples,
    save_tiny,
    space_of,
    transformers,
)


@pytest.fixture(scope="module")
def space() -> TextSpace:
    return space_of()


@pytest.fixture(scope="module")
def classifier(tiny_folder: Path, space: TextSpace) -> TransformerClassifier:
    return TransformerClassifier(*load_transformer(tiny_folder), space.texts, CLASSES)


@torch.no_grad()
def plain_scores(classifier: TransformerClassifier, text: str) -> Tensor:
    """(classes,) the bare model on one text alone."""
    pieces = classifier.tokenizer(text, truncation=True, return_tensors="pt")
    scores: Tensor = classifier.module(**pieces).logits[0].softmax(dim=0)
    return scores


def test_scores_are_those_of_the_plain_pipeline(
    tiny_folder: Path, classifier: TransformerClassifier, space: TextSpace
) -> None:
    pipeline = transformers.pipeline(
        "text-classification", model=str(tiny_folder), tokenizer=str(tiny_folder), device="cpu"
    )
    as_written = space.samples(np.arange(len(TEXTS), dtype=np.int32)[:, None])
    x = torch.cat([as_written, samples(space, len(TEXTS))])
    labels, scores = classifier.outputs(space.inputs(x))
    for text, label, score in zip(rendered(space, x), labels.tolist(), scores, strict=True):
        plain = {answer["label"]: answer["score"] for answer in pipeline(text, truncation=True, top_k=None)}
        wanted = torch.tensor([plain[name] for name in CLASSES])
        torch.testing.assert_close(score, wanted, rtol=0, atol=1e-5)
        assert CLASSES[label] == max(plain, key=lambda name: plain[name])
    assert set(labels.tolist()) == {0, 1}


def test_neither_padding_nor_company_changes_a_score(classifier: TransformerClassifier, space: TextSpace) -> None:
    inputs = space.inputs(samples(space, 24))
    together = classifier.outputs(inputs)
    backwards = classifier.outputs(inputs.flip(0)).scores.flip(0)
    alone = torch.cat([classifier.outputs(row[None]).scores for row in inputs])
    assert torch.equal(alone, together.scores)
    assert torch.equal(backwards, together.scores)
    gradients = classifier.gradients(inputs, together.labels)
    for row in range(0, len(inputs), 5):
        part = slice(row, row + 1)
        assert torch.equal(classifier.gradients(inputs[part], together.labels[part]), gradients[part])


def test_calls_of_one_length_have_one_shape(
    classifier: TransformerClassifier, space: TextSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = spied_shapes(classifier, monkeypatch)
    for n in (1, 3, 40):
        classifier.outputs(space.inputs(samples(space, n)))
    sizes = {length: {size for size, other in shapes if other == length} for _, length in shapes}
    assert sizes == {16: {32}, 32: {16}, LONGEST: {8}}


def spied_shapes(classifier: TransformerClassifier, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The shape of each call of the model from now on."""
    shapes: list[tuple[int, int]] = []
    forward = classifier.module.forward

    def spy(**inputs: Tensor) -> Any:
        shapes.append(tuple(inputs["input_ids"].shape))  # type: ignore[arg-type]
        return forward(**inputs)

    monkeypatch.setattr(classifier.module, "forward", spy)
    return shapes


def test_equal_texts_are_read_once_and_all_are_counted(
    classifier: TransformerClassifier, space: TextSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = space.inputs(samples(space, 1))
    shapes = spied_shapes(classifier, monkeypatch)
    before = classifier.rows
    own, near = classifier.outputs_from(x, torch.zeros(99).long(), torch.zeros(99).long(), x.expand(99, -1))
    assert len(shapes) == 1
    assert classifier.rows == before + 100
    assert torch.equal(near.scores, own.scores.expand(99, -1))
    assert torch.equal(near.labels, own.labels.expand(99))
    classifier.gradients(x, own.labels)
    assert classifier.rows == before + 101


def test_outputs_from_are_the_outputs(classifier: TransformerClassifier, space: TextSpace) -> None:
    x = samples(space, 6)
    of = torch.tensor([0, 0, 3, 5])
    near = space.inputs(space.with_combination(x[of], torch.tensor([0, 1, 2, 4])))
    own, others = classifier.outputs_from(space.inputs(x), of, torch.zeros(4).long(), near)
    for found, wanted in ((own, classifier.outputs(space.inputs(x))), (others, classifier.outputs(near))):
        assert torch.equal(found.labels, wanted.labels)
        torch.testing.assert_close(found.scores, wanted.scores, rtol=0, atol=1e-6)


def test_a_budget_of_rows_is_kept(classifier: TransformerClassifier, space: TextSpace) -> None:
    inputs = space.inputs(samples(space, 3))
    classifier.most_rows = classifier.rows + 2
    try:
        classifier.outputs(inputs[:2])
        with pytest.raises(OutOfRows):
            classifier.outputs(inputs[2:])
    finally:
        classifier.most_rows = None


def test_no_text_gives_no_output(classifier: TransformerClassifier, space: TextSpace) -> None:
    nothing = space.inputs(samples(space, 1))[:0]
    assert classifier.outputs(nothing).scores.shape == (0, 2)
    assert classifier.gradients(nothing, torch.zeros(0).long()).shape == (0, space.width, 32)


def test_an_empty_text_has_a_score(classifier: TransformerClassifier) -> None:
    scores = classifier.outputs_of_texts([""]).scores
    torch.testing.assert_close(scores[0], plain_scores(classifier, ""), rtol=0, atol=1e-5)


def test_units_are_found_in_the_new_text(space: TextSpace) -> None:
    x = samples(space, 60)
    for row, text in zip(space.inputs(x).numpy(), rendered(space, x), strict=True):
        found, spans = render_with_spans(space.texts, int(row[0]), row[1:])
        assert found == text
        units = [space.texts.units.surfaces[unit] for unit in row[1:] if unit >= 0]
        assert [text[left:right].lower() for left, right in spans] == [unit.lower() for unit in units]


@pytest.mark.parametrize(
    ("text", "who", "changes", "wanted"),
    [
        ("THE MUSLIM TEACHER IS LAZY.", "Jewish", {"lazy": "loud"}, "THE JEWISH TEACHER IS LOUD."),
        ("I don't like  that Jewish film,\nit's long", "Muslim", {}, "I don't like  that Muslim film,\nit's long"),
        ("Lazy, that Christian... Lazy!", "Buddhist", {"lazy": "kind"}, "Kind, that Buddhist... Lazy!"),
    ],
)
def test_case_and_spacing_are_kept(
    tiny_folder: Path, text: str, who: str, changes: dict[str, str], wanted: str
) -> None:
    space = space_of((text,))
    classifier = TransformerClassifier(*load_transformer(tiny_folder), space.texts, CLASSES)
    x = space.samples(np.zeros((1, 1), dtype=np.int32))
    x[0, SWAP] = 1 + PEOPLE.index(who)
    for word, other in changes.items():
        x[0, CODES + tokenize(text).words.index(word)] = 1 + NEAREST[word].index(other)
    found = classifier.outputs(space.inputs(x)).scores[0]
    torch.testing.assert_close(found, plain_scores(classifier, wanted), rtol=0, atol=1e-5)
    other_case = plain_scores(classifier, wanted.swapcase())
    assert (found - other_case).abs().max() > 1e-4, "the model would not see it"


def pieces_of(encoding: Any, span: tuple[int, int]) -> set[int]:
    """The pieces of a text that hold one of the characters of a span."""
    found = {encoding.char_to_token(character) for character in range(*span)}
    return {piece for piece in found if piece is not None}


@pytest.mark.parametrize("of", ["loss", "score", "odds"])
def test_a_gradient_is_the_sum_over_the_pieces_of_a_word(
    classifier: TransformerClassifier, space: TextSpace, of: GradientOf
) -> None:
    x = samples(space, len(TEXTS))
    inputs = space.inputs(x)
    y = torch.arange(len(x)) % 2
    gradients = classifier.gradients(inputs, y, of)
    assert gradients.shape == (len(x), space.width, 32)
    sizes = set()
    for row, label, gradient in zip(inputs.numpy(), y.tolist(), gradients, strict=True):
        text, spans = render_with_spans(space.texts, int(row[0]), row[1:])
        encoding = classifier.tokenizer(text, truncation=True, return_tensors="pt")
        by_piece = plain_gradient(classifier, encoding["input_ids"], label, of)
        for place in range(space.width):
            pieces = pieces_of(encoding, spans[place]) if place < len(spans) else set()
            wanted = sum((by_piece[piece] for piece in pieces), torch.zeros(32))
            torch.testing.assert_close(gradient[place], wanted, rtol=1e-4, atol=1e-6)
            sizes.add(len(pieces))
    assert sizes >= {0, 1, 2, 3}


def plain_gradient(classifier: TransformerClassifier, ids: Tensor, label: int, of: GradientOf) -> Tensor:
    """(pieces, e) by the word embeddings of one text alone."""
    embedded = classifier.module.get_input_embeddings()(ids).detach().requires_grad_(True)
    logits = classifier.module(inputs_embeds=embedded).logits
    log_score = functional.log_softmax(logits, dim=1)[0]
    value = {
        "loss": -log_score[label],
        "score": log_score[label].exp(),
        "odds": log_score[label] - log_score[1 - label],
    }
    gradient: Tensor = torch.autograd.grad(value[of], embedded)[0][0]
    return gradient


def test_a_gradient_foretells_what_a_shift_of_a_word_does(classifier: TransformerClassifier, space: TextSpace) -> None:
    """Also where one piece holds parts of two units, as the "don" of "do" and "n't"."""
    inputs = space.inputs(space.samples(np.array([[len(TEXTS) - 3]], dtype=np.int32)))
    text, spans = render_with_spans(space.texts, int(inputs[0, 0]), inputs[0, 1:].numpy())
    encoding = classifier.tokenizer(text, return_tensors="pt")
    gradient = classifier.gradients(inputs, torch.tensor([0]), "odds")[0]
    embedded = classifier.module.get_input_embeddings()(encoding["input_ids"]).detach()
    direction = torch.randn(32, generator=torch.Generator().manual_seed(0))
    for place, span in enumerate(spans):
        shift = torch.zeros_like(embedded)
        shift[0, sorted(pieces_of(encoding, span))] = 1e-2 * direction
        with torch.no_grad():
            up, down = (classifier.module(inputs_embeds=embedded + sign * shift).logits[0] for sign in (1, -1))
        change = ((up[0] - up[1]) - (down[0] - down[1])) / 2e-2
        torch.testing.assert_close(gradient[place] @ direction, change, rtol=0.02, atol=2e-3)


def test_what_is_cut_off_does_not_matter(classifier: TransformerClassifier, space: TextSpace) -> None:
    x = space.samples(np.array([[LONG]], dtype=np.int32))
    text = TEXTS[LONG]
    read = len(classifier.tokenizer(text, truncation=True)["input_ids"])
    assert read == LONGEST == classifier.most_pieces
    assert classifier.most_words == LONGEST - 2
    free = np.flatnonzero(space.choices[LONG].numpy() > 1)
    changed = space.with_code(x, torch.tensor([int(free[-1])]), torch.tensor([1]))
    own, others = (classifier.outputs(space.inputs(which)) for which in (x, changed))
    assert rendered(space, changed) != [text]
    assert torch.equal(own.scores, others.scores)
    gradient = classifier.gradients(space.inputs(x), own.labels)[0]
    _, spans = render_with_spans(space.texts, LONG, space.inputs(x)[0, 1:].numpy())
    last = max(
        end for _, end in classifier.tokenizer(text, truncation=True, return_offsets_mapping=True).offset_mapping
    )
    for place, (start, _) in enumerate(spans):
        assert bool(gradient[place].any()) == (start < last)


def test_the_longest_text_is_known_from_the_positions(tiny_folder: Path, space: TextSpace) -> None:
    """RoBERTa has more positions than it can use."""
    module, tokenizer = load_transformer(tiny_folder)
    tokenizer.model_max_length = int(1e30)
    assert longest(module, tokenizer) == LONGEST
    classifier = TransformerClassifier(module, tokenizer, space.texts, CLASSES)
    assert classifier.outputs_of_texts([TEXTS[LONG]]).scores.shape == (1, 2)


def test_a_unit_lies_at_the_mean_of_its_pieces(classifier: TransformerClassifier, space: TextSpace) -> None:
    units = space.texts.units
    weight = classifier.module.get_input_embeddings().weight
    assert classifier.vectors.shape == (len(units), 32)
    for surface, written in (("Muslim", " Muslim"), ("lazy", " lazy"), ("neighbour", " neighbour"), ("!", "!")):
        pieces = classifier.tokenizer(written, add_special_tokens=False)["input_ids"]
        pieces = [piece for piece in pieces if classifier.tokenizer.decode([piece]).strip()]  # no space alone
        wanted = weight[pieces].mean(dim=0)
        torch.testing.assert_close(classifier.vectors[units.surfaces.index(surface)], wanted)


@pytest.mark.parametrize(("labels", "sign"), [(["toxic"], 1), (["not toxic"], -1)])
def test_a_single_logit_speaks_of_one_class(tmp_path: Path, space: TextSpace, labels: list[str], sign: int) -> None:
    folder = save_tiny(tmp_path, "wordpiece", labels, steps=3)
    classifier = TransformerClassifier(*load_transformer(folder), space.texts, CLASSES)
    x = samples(space, 5)
    with torch.no_grad():
        texts = [classifier.tokenizer(text, return_tensors="pt", truncation=True) for text in rendered(space, x)]
        wanted = torch.cat([(sign * classifier.module(**text).logits).sigmoid() for text in texts])
    torch.testing.assert_close(classifier.outputs(space.inputs(x)).scores[:, 1:], wanted, rtol=0, atol=1e-5)


def test_classes_in_another_order_get_their_own_scores(tmp_path: Path, space: TextSpace) -> None:
    folder = save_tiny(tmp_path, "wordpiece", CLASSES[::-1], steps=3)
    module, tokenizer = load_transformer(folder)
    inputs = space.inputs(samples(space, 5))
    own, other = (TransformerClassifier(module, tokenizer, space.texts, names) for names in (CLASSES[::-1], CLASSES))
    assert torch.equal(own.outputs(inputs).scores, other.outputs(inputs).scores.flip(1))
    y = torch.zeros(5).long()
    assert torch.equal(own.gradients(inputs, y), other.gradients(inputs, 1 - y))
    assert other.model_labels == CLASSES


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("wordpiece", TextADF(rule="asc")),
        ("wordpiece", TextADF(rule="hotflip")),
        ("byte-level", TextADF(rule="hotflip")),
        ("wordpiece", Boundary(tries=6)),
        ("byte-level", RandomPerturbation()),
    ],
    ids=lambda value: getattr(value, "rule", getattr(value, "name", value)),
)
def test_every_finding_holds_one_text_at_a_time(
    tiny_folders: dict[str, Path], space: TextSpace, kind: Kind, method: Method[TextSpace, TransformerClassifier]
) -> None:
    classifier = TransformerClassifier(*load_transformer(tiny_folders[kind]), space.texts, CLASSES)
    found: list[Findings] = []
    search = Search(classifier, space, method, seed=1, limits=Limits(iterations=3, steps=3), sink=found.append)
    sources = np.arange(len(TEXTS), dtype=np.int32)
    result = search.run(sources[:, None], sources.astype(np.int64))
    assert result.counts.all_findings == sum(map(len, found)) > 4
    for part in found:
        x = torch.tensor(part.sample).long()
        pair = space.with_combination(x, torch.tensor(part.witness[:, 0]).long())
        for row in range(len(part)):
            check_pair(classifier, space, x[row : row + 1], pair[row : row + 1], part.label[row], part.score[row])


def check_pair(
    classifier: TransformerClassifier, space: TextSpace, x: Tensor, pair: Tensor, label: int, score: float
) -> None:
    """The labels differ for the plain model, only people differ in the pair, and each moved word is one of the near."""
    (text, other), (units, others) = rendered(space, torch.cat([x, pair])), space.inputs(torch.cat([x, pair]))[:, 1:]
    scores, other_scores = plain_scores(classifier, text), plain_scores(classifier, other)
    assert scores[label] == pytest.approx(score, abs=1e-5)
    if min((s - 0.5).abs().max() for s in (scores, other_scores)) > 1e-5:  # else rounding decides
        assert scores.argmax() == label != other_scores.argmax()
    source = int(x[0, SOURCE])
    own = space.inputs(space.samples(np.array([[source]], dtype=np.int32)))[0, 1:]
    for place in range(space.width):
        before, after = (space.texts.units.surfaces[units_of[place]] for units_of in (own, units))
        if space.group[source, place] == NO_GROUP:
            assert units[place] == others[place]
            assert after == before or after in NEAREST[before]
        else:
            assert after == before


def test_same_seed_same_findings_however_it_is_chunked(tiny_folders: dict[str, Path], space: TextSpace) -> None:
    module, tokenizer = load_transformer(tiny_folders["wordpiece"])
    found: dict[int, list[Findings]] = {20: [], 4096: []}
    sources = np.arange(len(TEXTS), dtype=np.int32)
    for chunk_rows, parts in found.items():
        classifier = TransformerClassifier(module, tokenizer, space.texts, CLASSES, chunk_rows=chunk_rows)
        limits = Limits(iterations=2, steps=2)
        Search(classifier, space, TextADF(), seed=2, limits=limits, sink=parts.append).run(
            sources[:, None], sources.astype(np.int64)
        )
    small, large = (np.concatenate([part.sample for part in parts]) for parts in found.values())
    np.testing.assert_array_equal(small, large)


def test_a_score_that_is_no_number_is_an_error(tiny_folders: dict[str, Path], space: TextSpace) -> None:
    module, tokenizer = load_transformer(tiny_folders["wordpiece"])
    with torch.no_grad():
        module.classifier.bias.fill_(torch.nan)
    classifier = TransformerClassifier(module, tokenizer, space.texts, CLASSES)
    with pytest.raises(EvenhandError, match=r"not a number \(NaN\) for the text 'Hello!'"):
        classifier.outputs_of_texts(["Hello!"])


@pytest.mark.parametrize("right", [True, False])
def test_a_model_that_reads_forwards_must_know_its_padding(space: TextSpace, right: bool) -> None:
    """It takes what it says from the last piece that is no padding."""
    tokenizer = byte_level()
    pad = tokenizer.pad_token_id if right else tokenizer.unk_token_id
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=LONGEST, n_embd=16, n_layer=2, n_head=2, pad_token_id=pad
    )
    module = transformers.GPT2ForSequenceClassification(config).eval()
    if not right:
        with pytest.raises(EvenhandError, match="another score when it is padded"):
            TransformerClassifier(module, tokenizer, space.texts, CLASSES)
        return
    classifier = TransformerClassifier(module, tokenizer, space.texts, CLASSES)
    x = samples(space, 8)
    scores = classifier.outputs(space.inputs(x)).scores
    wanted = torch.stack([plain_scores(classifier, text) for text in rendered(space, x)])
    torch.testing.assert_close(scores, wanted, rtol=0, atol=1e-5)
    assert classifier.gradients(space.inputs(x), torch.zeros(8).long()).any()


def test_a_model_that_reads_its_words_twice_gives_no_gradient(space: TextSpace) -> None:
    tokenizer = byte_level()
    torch.manual_seed(0)
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, num_labels=2, max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=tokenizer.bos_token_id,
    )  # fmt: skip
    module = transformers.BartForSequenceClassification(config).eval()
    classifier = TransformerClassifier(module, tokenizer, space.texts, CLASSES)
    inputs = space.inputs(samples(space, 2))
    assert classifier.outputs(inputs).scores.shape == (2, 2)
    with pytest.raises(EvenhandError, match=r"BartForSequenceClassification does not read .* such as random"):
        classifier.gradients(inputs, torch.zeros(2).long())
