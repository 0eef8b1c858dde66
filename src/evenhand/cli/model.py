"""`evenhand model`: try a model of one's own before an audit, and say what it offers."""

import json
from typing import Annotated, Any

import typer

from evenhand.cli.options import Data, Inputs, Json

Tried = Annotated[
    str | None,
    typer.Option("--model", "-m", help="The model to try.", show_default="built in"),
]


def model(data: Data, model: Tried = None, inputs: Inputs = None, as_json: Json = False) -> None:
    """Try a model on the data: whether a search can trust it, what it offers, which method an audit would use.

    It must be a function of a row: the same scores again, in any company. Gradients are compared with differences of
    scores. Exit code 2 says which requirement it fails.

    Examples:
      evenhand model census

      evenhand model people.toml --model pipeline.skops

      evenhand model people.toml --model net.onnx --inputs onehot
    """
    from evenhand.data.dataset import load_dataset
    from evenhand.methods.names import AUTO
    from evenhand.methods.registry import METHODS, chosen_method
    from evenhand.models.conformance import conformance
    from evenhand.models.loading import load_module
    from evenhand.report.text import agreement_text
    from evenhand.runs.subject import agreement

    dataset = load_dataset(data)
    module, name = load_module(dataset, model, inputs)
    tried = conformance(module, dataset)
    agrees = agreement(tried.classifier, dataset, 0)
    method = chosen_method(AUTO, tried.why_not)
    content: dict[str, Any] = {
        "model": name,
        "data": dataset.name,
        "output": tried.classifier.output,
        "offers": ["scores", "gradients"] if tried.gradients else ["scores"],
        "no_gradients": tried.why_not or None,
        "method": method,
        "agreement": agrees,
        "met": tried.met,
    }
    if as_json:
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from evenhand.cli.printing import print_facts

    facts = [("model", name), ("data", f"{dataset.name}, {len(dataset.codes):,} rows")]
    facts += [("met" if number == 0 else "", words) for number, words in enumerate(tried.met)]
    facts += [("gives the label of", agreement_text(agrees)), ("offers", ", ".join(content["offers"]))]
    facts += [("no gradients", tried.why_not)] if tried.why_not else []
    print_facts(Console(highlight=False), [*facts, ("method", f"{method}: {METHODS[method].about}")])
