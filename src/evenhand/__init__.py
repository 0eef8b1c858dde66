"""evenhand finds individual discrimination in neural classifiers.

Pairs of inputs that differ only in protected attributes and get different labels. `evenhand.audit` is the way in.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Adapter",
    "Audit",
    "Corpus",
    "Dataset",
    "DiscriminationFound",
    "EvenhandError",
    "FrameAdapter",
    "Inferred",
    "Measurement",
    "MethodComparison",
    "Repair",
    "RepairedModel",
    "Schema",
    "__version__",
    "assert_fair",
    "audit",
    "compare",
    "conformance",
    "dataset_from",
    "infer_schema",
    "load_corpus",
    "load_dataset",
    "load_repaired",
    "log_mlflow",
    "measure",
    "repair",
]

if TYPE_CHECKING:
    from evenhand.data.dataset import Dataset, load_dataset
    from evenhand.data.infer.schema import Inferred, dataset_from, infer_schema
    from evenhand.data.schema import Schema
    from evenhand.errors import EvenhandError
    from evenhand.gate.check import DiscriminationFound, assert_fair
    from evenhand.models.adapters.base import Adapter
    from evenhand.models.adapters.frames import FrameAdapter
    from evenhand.models.repaired import RepairedModel, load_repaired
    from evenhand.models.trial import conformance
    from evenhand.runs.audit import Audit, audit
    from evenhand.runs.compare import MethodComparison, compare
    from evenhand.runs.measure import Measurement, measure
    from evenhand.runs.mlflow_log import log_mlflow
    from evenhand.runs.repair import Repair, repair
    from evenhand.text.corpus import Corpus, load_corpus

_HOMES = {
    "Adapter": "evenhand.models.adapters.base",
    "Audit": "evenhand.runs.audit",
    "Corpus": "evenhand.text.corpus",
    "Dataset": "evenhand.data.dataset",
    "DiscriminationFound": "evenhand.gate.check",
    "EvenhandError": "evenhand.errors",
    "FrameAdapter": "evenhand.models.adapters.frames",
    "Inferred": "evenhand.data.infer.schema",
    "Measurement": "evenhand.runs.measure",
    "Schema": "evenhand.data.schema",
    "assert_fair": "evenhand.gate.check",
    "audit": "evenhand.runs.audit",
    "compare": "evenhand.runs.compare",
    "conformance": "evenhand.models.trial",
    "dataset_from": "evenhand.data.infer.schema",
    "infer_schema": "evenhand.data.infer.schema",
    "load_corpus": "evenhand.text.corpus",
    "load_dataset": "evenhand.data.dataset",
    "load_repaired": "evenhand.models.repaired",
    "log_mlflow": "evenhand.runs.mlflow_log",
    "measure": "evenhand.runs.measure",
    "MethodComparison": "evenhand.runs.compare",
    "Repair": "evenhand.runs.repair",
    "RepairedModel": "evenhand.models.repaired",
    "repair": "evenhand.runs.repair",
}
# Names of release 0.1, which had one for tables and one for texts.
_EARLIER = {
    "TextAudit": "Audit",
    "audit_text": "audit",
    "measure_table": "measure",
    "measure_text": "measure",
    "repair_table": "repair",
    "repair_text": "repair",
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and `import evenhand` should not."""
    name = _EARLIER.get(name, name)
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'evenhand' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
