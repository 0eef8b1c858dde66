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
    "Repair",
    "RepairedModel",
    "Schema",
    "TextAudit",
    "__version__",
    "assert_fair",
    "audit",
    "audit_text",
    "conformance",
    "dataset_from",
    "infer_schema",
    "load_corpus",
    "load_dataset",
    "load_repaired",
    "log_mlflow",
    "measure_table",
    "measure_text",
    "repair_table",
    "repair_text",
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
    from evenhand.runs.measure import Measurement, measure_table
    from evenhand.runs.mlflow_log import log_mlflow
    from evenhand.runs.repair import Repair
    from evenhand.runs.table_repair import repair_table
    from evenhand.runs.text_audit import TextAudit, audit_text
    from evenhand.runs.text_measure import measure_text
    from evenhand.runs.text_repair import repair_text
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
    "TextAudit": "evenhand.runs.text_audit",
    "assert_fair": "evenhand.gate.check",
    "audit": "evenhand.runs.audit",
    "audit_text": "evenhand.runs.text_audit",
    "conformance": "evenhand.models.trial",
    "dataset_from": "evenhand.data.infer.schema",
    "infer_schema": "evenhand.data.infer.schema",
    "load_corpus": "evenhand.text.corpus",
    "load_dataset": "evenhand.data.dataset",
    "load_repaired": "evenhand.models.repaired",
    "log_mlflow": "evenhand.runs.mlflow_log",
    "measure_table": "evenhand.runs.measure",
    "measure_text": "evenhand.runs.text_measure",
    "Repair": "evenhand.runs.repair",
    "RepairedModel": "evenhand.models.repaired",
    "repair_table": "evenhand.runs.table_repair",
    "repair_text": "evenhand.runs.text_repair",
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and `import evenhand` should not."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'evenhand' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
