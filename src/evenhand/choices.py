"""The words that settings may have, and defaults that more than one part of the package needs; nothing is imported."""

from typing import Literal

Domain = Literal["table", "text"]  # what is put to the test: a table with its schema, or a corpus with its lexicon
OutputForm = Literal["auto", "logits", "probabilities"]  # what a model of tables returns
Ambiguous = Literal["keep", "exclude"]  # what becomes of words that need not be protected ones
Moves = Literal["tokens", "words"]  # what may be replaced: any token, as in the paper, or words with a meaning only
Swap = Literal["one", "all"]  # whether one mention of a protected value changes, or all of them
EncoderName = Literal["auto", "use", "minilm", "none"]
Vote = Literal["models", "own"]  # who labels the findings that a repair learns from
REPAIRS = ("augment", "certified", "pairing", "blind", "average")
DEFAULT_LEXICON = "evenhand"
AUTO = "auto"  # what suits
UNFINISHED = ("interrupted", "budget-spent", "model-failed")  # why a search stopped that can go on from a checkpoint
