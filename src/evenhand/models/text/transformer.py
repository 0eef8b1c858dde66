"""Hugging Face sequence classifiers as models of text, asked about whole texts as people read them.

They come from a folder: nothing is looked up on a hub, no code that comes with a model is run, and no weights are
unpickled.
"""

import importlib
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from evenhand.errors import EvenhandError
from evenhand.models.classifier import (
    ROW_MULTIPLE,
    GradientOf,
    Outputs,
    as_logits,
    first_line,
    loss_slope,
    probabilities,
)
from evenhand.models.text.classifier import TextClassifier
from evenhand.text.texts import SearchTexts

# A text's score must not depend on its company. Padding is masked, but a call of another shape adds up in another
# order, which moves scores by about 1e-6. So a text is padded to the next multiple of LENGTH_STEP, whatever stands
# beside it, and all calls of one length have the same number of texts: the largest power of two within CALL_PIECES,
# filled up with copies. On a CPU the scores then agree to the last bit (tried for BERTs of 32 to 768 states). What
# remains are such differences to the same text alone and unpadded, and between devices.
# On a CPU 512 pieces a call are as fast as 8,192, and less is filled up; a GPU needs more to be busy.
LENGTH_STEP = 16
CALL_PIECES = {"cpu": 512, "cuda": 16_384}
CHUNK_ROWS = 4096  # texts that are cut into pieces together
USUAL_LENGTH = 512  # where neither the tokenizer nor the model says how long a text may be
NO_LENGTH = 1_000_000  # tokenizers that know no limit say 1e30
PADDING_TOLERANCE = 1e-4


class Pieces(NamedTuple):
    """A text as the tokenizer cuts it, with the marks at its beginning and end."""

    ids: list[int]
    types: list[int] | None  # for models that tell apart a first and a second text
    spans: list[tuple[int, int]]  # the characters of each piece; none for marks


class TransformerClassifier(TextClassifier):
    """A Hugging Face sequence classifier. It reads each text as a person would, cut by its own tokenizer.

    A unit's vector is the mean of the word embeddings of its pieces, its gradient the sum of theirs: a shift of the
    whole word shifts each of its pieces. A piece that covers several units, such as "...", counts for each.
    """

    def __init__(
        self,
        module: Any,
        tokenizer: Any,
        texts: SearchTexts,
        classes: Sequence[str],
        *,
        device: torch.device | str = "cpu",
        chunk_rows: int | None = None,
    ) -> None:
        """`module` and `tokenizer` are what `load_transformer` gives."""
        self.device = torch.device(device)
        self.module = module.to(self.device).eval().requires_grad_(False)
        self.tokenizer, self.texts = tokenizer, texts
        self.chunk_rows = chunk_rows or CHUNK_ROWS
        self.model_labels, self._order = match_labels(module.config, classes)  # the model's own names, as in `classes`
        self.most_pieces = longest(module, tokenizer)
        self.most_words = self.most_pieces - int(tokenizer.num_special_tokens_to_add())
        self._embeddings: nn.Module = module.get_input_embeddings()
        self._check_padding()
        self.vectors = self._unit_vectors()

    def outputs(self, x: Tensor) -> Outputs:
        """Labels and scores of (n, 1 + width) texts."""
        return self.outputs_of_texts([self.texts.render(int(row[0]), row[1:]) for row in x.cpu().numpy()])

    def outputs_from(self, x: Tensor, of: Tensor, place: Tensor, near: Tensor) -> tuple[Outputs, Outputs]:  # noqa: ARG002
        """Each word is read in the light of those after it too, so there is nothing to share but equal texts."""
        labels, scores = self.outputs(torch.cat([x, near]))
        return Outputs(labels[: len(x)], scores[: len(x)]), Outputs(labels[len(x) :], scores[len(x) :])

    @torch.no_grad()
    def outputs_of_texts(self, texts: Sequence[str]) -> Outputs:
        """Labels and scores of texts as they are written; equal ones are read once."""
        self.count(len(texts))
        number: dict[str, int] = {}
        which = torch.tensor([number.setdefault(text, len(number)) for text in texts], device=self.device).long()
        unique = list(number)
        # Filled up, since a logistic function treats the last values apart.
        filled = -(-len(unique) // ROW_MULTIPLE) * ROW_MULTIPLE
        logits = torch.zeros(filled, len(self._order), device=self.device)
        for begin in range(0, len(unique), self.chunk_rows):
            pieces = self._cut(unique[begin : begin + self.chunk_rows])
            for rows, inputs in self._calls(pieces):
                logits[begin + rows] = self._logits(inputs)[: len(rows)]
        start = time.perf_counter()
        scores = probabilities(logits)
        self.seconds += time.perf_counter() - start
        if bool(torch.isnan(scores).any()):
            text = unique[int(torch.isnan(scores).any(dim=1).int().argmax())]
            raise EvenhandError(f"The model's score is not a number (NaN) for the text {text!r}. Check its weights.")
        return Outputs(logits.argmax(dim=1)[which], scores[which])

    def gradients(self, x: Tensor, y: Tensor, of: GradientOf = "loss") -> Tensor:
        """(n, width, e) by the units' vectors; zero for units that the model does not read."""
        self.count(len(x))
        width = x.shape[1] - 1
        gradient = torch.zeros(len(x), width, self.vectors.shape[1], device=self.device)
        for begin in range(0, len(x), self.chunk_rows):
            part = x[begin : begin + self.chunk_rows].cpu().numpy()
            rendered = [render_with_spans(self.texts, int(row[0]), row[1:]) for row in part]
            pieces = self._cut([text for text, _ in rendered])
            for rows, inputs in self._calls(pieces):
                length = inputs["input_ids"].shape[1]
                of_units = _padded([rendered[row][1] for row in rows.tolist()], width, self.device)
                of_pieces = _padded([pieces[row].spans for row in rows.tolist()], length, self.device)
                by_piece = self._piece_gradients(inputs, y[begin + rows], of)
                gradient[begin + rows] = _overlap(of_units, of_pieces) @ by_piece
        return gradient

    def _cut(self, texts: list[str]) -> list[Pieces]:
        """Texts as pieces, the first `most_pieces` of each."""
        cut = self.tokenizer(texts, truncation=True, max_length=self.most_pieces, return_offsets_mapping=True)
        types = cut.get("token_type_ids", [None] * len(texts))
        return [Pieces(*text) for text in zip(cut["input_ids"], types, cut["offset_mapping"], strict=True)]

    def _calls(self, pieces: list[Pieces]) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """Which texts (k,) run together, and what the model is given for them: k rows and copies to fill up."""
        rows_of: dict[int, list[int]] = {}
        for row, text in enumerate(pieces):
            padded = max(1, -(-len(text.ids) // LENGTH_STEP)) * LENGTH_STEP
            rows_of.setdefault(min(padded, self.most_pieces), []).append(row)
        for length, rows in sorted(rows_of.items()):
            size = _call_size(length, self.device)
            for begin in range(0, len(rows), size):
                together = rows[begin : begin + size]
                filled = together + together[:1] * (size - len(together))
                yield torch.tensor(together, device=self.device), self._inputs([pieces[row] for row in filled], length)

    def _inputs(self, pieces: list[Pieces], length: int) -> dict[str, Tensor]:
        """What the model is called with. Padding comes last, since some models count positions from the left."""
        pad, pad_type = self.tokenizer.pad_token_id, self.tokenizer.pad_token_type_id
        inputs = {
            "input_ids": [text.ids + [pad] * (length - len(text.ids)) for text in pieces],
            "attention_mask": [[1] * len(text.ids) + [0] * (length - len(text.ids)) for text in pieces],
        }
        if pieces[0].types is not None:
            inputs["token_type_ids"] = [(text.types or []) + [pad_type] * (length - len(text.ids)) for text in pieces]
        return {name: torch.tensor(rows, device=self.device) for name, rows in inputs.items()}

    def _logits(self, inputs: dict[str, Tensor]) -> Tensor:
        """(rows, classes) in the order of the corpus' classes."""
        start = time.perf_counter()
        try:
            raw = self.module(**inputs).logits
        except Exception as error:  # the model's files, or too little memory
            shape = " × ".join(map(str, inputs["input_ids"].shape))
            raise EvenhandError(f"The model failed on {shape} pieces of text: {first_line(error)}.") from error
        logits = as_logits(raw.float(), self.output)[:, self._order]
        self.seconds += time.perf_counter() - start
        return logits

    def _piece_gradients(self, inputs: dict[str, Tensor], y: Tensor, of: GradientOf) -> Tensor:
        """(k, pieces, e) by the word embeddings, which are caught inside the model, so that it sets all else itself."""
        caught: list[Tensor] = []

        def catch(module: nn.Module, args: object, output: Tensor) -> Tensor:  # noqa: ARG001
            caught.append(output.detach().requires_grad_(True))
            return caught[-1]

        hook = self._embeddings.register_forward_hook(catch)
        try:
            with torch.enable_grad():
                logits = self._logits(inputs)
        finally:
            hook.remove()
        if len(caught) != 1 or caught[0].shape[:2] != inputs["input_ids"].shape:
            raise EvenhandError(
                f"{type(self.module).__name__} does not read its word embeddings once for each piece, so there is no "
                "gradient for a word. Use a method that needs none, such as random."
            )
        start = time.perf_counter()
        filled = functional.pad(logits.detach(), (0, 0, 0, -len(logits) % ROW_MULTIPLE))
        slope = loss_slope(filled, functional.pad(y, (0, len(filled) - len(y))), of)
        (gradient,) = torch.autograd.grad(logits, caught[0], slope[: len(logits)])
        self.seconds += time.perf_counter() - start
        return gradient[: len(y)].float().nan_to_num_(nan=0.0)

    def _unit_vectors(self) -> Tensor:
        """(units, e): each unit's pieces as they are inside a sentence; zero for a unit that the tokenizer drops."""
        ids: list[int] = []
        begins = []
        surfaces = self.texts.units.surfaces
        for begin in range(0, len(surfaces), self.chunk_rows):
            part = surfaces[begin : begin + self.chunk_rows]
            # A word comes after a space, which is part of its first piece in some tokenizers; most signs do not.
            leads = ["a " if surface[:1].isalnum() else "a" for surface in part]
            written = [lead + surface for lead, surface in zip(leads, part, strict=True)]
            cut = self.tokenizer(written, add_special_tokens=False, return_offsets_mapping=True)
            for lead, pieces, spans in zip(leads, cut["input_ids"], cut["offset_mapping"], strict=True):
                begins.append(len(ids))
                ids += [piece for piece, (_, end) in zip(pieces, spans, strict=True) if end > len(lead)]
        used, which = torch.unique(torch.tensor(ids, device=self.device).long(), return_inverse=True)
        with torch.no_grad():
            table = self._embeddings(used).float()
        return functional.embedding_bag(which, table, torch.tensor(begins, device=self.device), mode="mean")

    @torch.no_grad()
    def _check_padding(self) -> None:
        """Whether the model reads a padded text like the text alone; some take what they say from the last place."""
        (pieces,) = self._cut(["a"])
        ((_, inputs),) = self._calls([pieces])
        alone = self._logits(self._inputs([pieces], len(pieces.ids)))
        apart = (probabilities(self._logits(inputs)[:1]) - probabilities(alone)).abs().max()
        if float(apart) > PADDING_TOLERANCE:
            raise EvenhandError(
                f"{type(self.module).__name__} gives a text another score when it is padded (by {float(apart):.2g}), "
                "so texts cannot be scored together. Check that the model's config.pad_token_id is the tokenizer's."
            )


def render_with_spans(
    texts: SearchTexts, source: int, row: NDArray[np.integer[Any]]
) -> tuple[str, list[tuple[int, int]]]:
    """A text of the search as a person reads it, and where in it each of its units stands."""
    tokens, done = texts.tokens[source], texts.rows[source].copy()
    text, spans, shift = tokens.text, [], 0
    for place, (start, end) in enumerate(texts.ranges[source]):
        left = tokens.spans[start][0] + shift
        if row[place] != done[place]:  # written one after another, so that each says by how much the text grows
            done[place] = row[place]
            text = texts.render(source, done)
            shift = len(text) - len(tokens.text)
        written = text[left : tokens.spans[end - 1][1] + shift]
        spans.append((left + len(written) - len(written.lstrip()), left + len(written.rstrip())))
    return text, spans


def longest(module: Any, tokenizer: Any) -> int:
    """How many pieces the model can read, with the marks at the beginning and the end."""
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < NO_LENGTH else []
    positions = getattr(module.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        reserved = [  # RoBERTa and its kin begin to count after the padding token's number
            part.padding_idx + 1
            for name, part in module.named_modules()
            if name.endswith("position_embeddings") and isinstance(part, nn.Embedding) and part.padding_idx is not None
        ]
        limits.append(positions - max(reserved, default=0))
    return min(limits, default=USUAL_LENGTH)


def _call_size(length: int, device: torch.device) -> int:
    """How many texts of a length run together: a power of two."""
    most = CALL_PIECES.get(device.type, CALL_PIECES["cpu"]) // length
    return 1 << max(0, most.bit_length() - 1)


def _padded(spans: list[list[tuple[int, int]]], width: int, device: torch.device) -> Tensor:
    """(k, width, 2) spans filled up with empty ones."""
    return torch.tensor([[*row, *[(0, 0)] * (width - len(row))] for row in spans], device=device)


def _overlap(units: Tensor, pieces: Tensor) -> Tensor:
    """(k, width, pieces) 1 where a piece has a character of a unit; spans are (k, …, 2)."""
    begins_before = pieces[:, None, :, 0] < units[:, :, None, 1]
    ends_after = pieces[:, None, :, 1] > units[:, :, None, 0]
    return (begins_before & ends_after).float()


def load_transformer(folder: str | Path) -> tuple[Any, Any]:
    """The sequence classifier in a folder, in float32, and its tokenizer."""
    path = Path(folder)
    _check_folder(path)
    transformers = _import_transformers()
    with _quiet(transformers):
        try:
            model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(path.resolve()),
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
                attn_implementation="eager",  # the same sums on every device; others may be fetched from a hub
                output_loading_info=True,
            )
        except Exception as error:  # whatever is wrong with the files
            raise EvenhandError(f"{path} cannot be read as a sequence classifier: {first_line(error)}.") from error
        if report["missing_keys"]:
            missing = ", ".join(sorted(report["missing_keys"])[:3])
            raise EvenhandError(
                f"{path} is no trained sequence classifier: its weights lack {missing}. "
                "Train it as AutoModelForSequenceClassification first."
            )
        return model.eval().requires_grad_(False), _load_tokenizer(transformers, path)


def _import_transformers() -> Any:
    """The package, on first use: it takes a second, and is not needed for anything else."""
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise EvenhandError(
            'Models from Hugging Face need the package transformers. Install it: pip install "evenhand[text]"'
        ) from error


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No progress bars and no warnings on the user's terminal; what matters is checked and raised."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _check_folder(path: Path) -> None:
    """Refuse, before anything is loaded, what is no complete model or would need code or files from elsewhere."""
    if not path.is_dir():
        raise EvenhandError(f"There is no folder {path}. Name one that holds a model: config.json and *.safetensors.")
    if (path / "adapter_config.json").is_file():
        raise EvenhandError(f"{path} holds an adapter. Merge it into its model and save that with save_pretrained.")
    if not (path / "config.json").is_file():
        raise EvenhandError(f"There is no config.json in {path}. Save the model there with save_pretrained.")
    for name in ("config.json", "tokenizer_config.json"):
        if _read_json(path / name).get("auto_map"):
            raise EvenhandError(
                f"{path / name} names code of its own (auto_map), which is not run. "
                "Only models that transformers itself knows can be used."
            )
    if not any((path / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")):
        others = ", ".join(sorted(file.name for file in path.glob("*.bin")))
        found = f" but {others}, which could run code when read" if others else ""
        raise EvenhandError(
            f"There is no model.safetensors in {path}{found}. "
            "Save the model with save_pretrained(folder, safe_serialization=True)."
        )
    if not (path / "tokenizer.json").is_file():
        raise EvenhandError(
            f"There is no tokenizer.json in {path}, the file of a fast tokenizer. "
            "Save one there: AutoTokenizer.from_pretrained(...).save_pretrained(folder)."
        )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise EvenhandError(f"{path} is not valid JSON: {error}. Save the model again.") from error
    if not isinstance(content, dict):
        raise EvenhandError(f"{path} must hold a JSON object. Save the model again.")
    return content


def _load_tokenizer(transformers: Any, path: Path) -> Any:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(path.resolve()), local_files_only=True, trust_remote_code=False, use_fast=True
        )
    except Exception as error:
        raise EvenhandError(f"The tokenizer in {path} cannot be read: {first_line(error)}.") from error
    if not tokenizer.is_fast:
        raise EvenhandError(
            f"{type(tokenizer).__name__} in {path} is not a fast tokenizer, so it cannot say which piece belongs to "
            "which word. Save the model with a fast one."
        )
    if tokenizer.pad_token_id is None:
        raise EvenhandError(
            f"The tokenizer in {path} has no padding token. Set tokenizer.pad_token and the model's "
            "config.pad_token_id, and save both again."
        )
    return tokenizer


def match_labels(config: Any, classes: Sequence[str]) -> tuple[list[str], list[int]]:
    """The model's name and the number of its logit for each class: by name where one fits, the others in order.

    A model with a single logit is taken to speak of the second class, or of the one that bears its label's name.
    """
    labels = [str(config.id2label[number]) for number in range(config.num_labels)]
    kind = getattr(config, "problem_type", None)
    if kind == "regression" or (kind == "multi_label_classification" and len(labels) > 1):
        raise EvenhandError(f"The model is for {kind.replace('_', '-')}; one that chooses one of its labels is needed.")
    if len(labels) == 1 and len(classes) == 2:
        labels = [f"not {labels[0]}", labels[0]]
    if len(labels) != len(classes):
        raise EvenhandError(
            f"The model has {len(labels)} labels ({', '.join(labels[:6])}), but the texts have {len(classes)} classes: "
            f"{', '.join(classes)}. Choose another model, or a label column with the model's labels."
        )
    number = {_plain(label): place for place, label in enumerate(labels)}
    found = [number.get(_plain(name)) for name in classes]
    rest = iter([place for place in range(len(labels)) if place not in found])
    order = [next(rest, place) if of_name is None else of_name for place, of_name in enumerate(found)]
    order = order if len(set(order)) == len(order) else list(range(len(order)))  # names that say nothing
    return [labels[place] for place in order], order


def _plain(label: str) -> str:
    """A label's name without what people write one way or the other."""
    return "".join(filter(str.isalnum, label.casefold()))
