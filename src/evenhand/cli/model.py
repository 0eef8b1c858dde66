"""`evenhand model`: try a model of one's own before an audit, and say what it offers."""

from typing import Annotated, Any

import typer

from evenhand.cli.options import AcceptPoorModel, Data, Inputs, Json, Output, Threshold
from evenhand.cli.printing import print_facts, print_json

Tried = Annotated[
    str | None,
    typer.Option("--model", "-m", help="The model to try.", show_default="built in"),
]


def model(
    data: Data,
    model: Tried = None,
    inputs: Inputs = None,
    output: Output = None,
    threshold: Threshold = None,
    accept_poor_model: AcceptPoorModel = False,
    as_json: Json = False,
) -> None:
    """Try a model on the data: whether a search can trust it, what it reads and offers, which method would be used.

    It must be a function of a row: the same scores again, in any company. Gradients are compared with differences of
    scores. Exit code 2 says which requirement it fails; an audit would refuse it for the same reason.

    Examples:
      evenhand model census

      evenhand model people.toml --model pipeline.skops

      evenhand model people.toml --model net.onnx --inputs onehot
    """
    from evenhand.data.dataset import load_dataset
    from evenhand.methods.names import AUTO
    from evenhand.methods.registry import METHODS, chosen_method
    from evenhand.models.devices import choose_device
    from evenhand.models.trial import conformance
    from evenhand.report.sentences import agreement_text, inputs_text, unread_text
    from evenhand.runs.tried_model import try_model

    dataset = load_dataset(data)
    tried_model = try_model(
        dataset, model, dataset.schema.protected, choose_device("cpu"), output=output or "auto", inputs=inputs,
        threshold=threshold, accept_poor_model=accept_poor_model,
    )  # fmt: skip
    tried = conformance(tried_model.classifier.module, dataset, output=tried_model.classifier.output)
    method = chosen_method(AUTO, tried.why_not)
    content: dict[str, Any] = {
        "model": tried_model.name,
        "warnings": tried_model.warnings,
        "data": dataset.name,
        "output": tried.classifier.output,
        "offers": ["scores", "gradients"] if tried.gradients else ["scores"],
        "no_gradients": tried.why_not or None,
        "method": method,
        **tried_model.facts(),
        "met": tried.met,
    }
    if as_json:
        print_json(content)
        return
    from rich.console import Console

    facts = [("warning", warning) for warning in tried_model.warnings]
    facts += [("model", tried_model.name), ("data", f"{dataset.name}, {len(dataset.codes):,} rows")]
    facts += [("met" if number == 0 else "", words) for number, words in enumerate(tried.met)]
    facts += [("reads", inputs_text(tried_model.facts()))]
    facts += [("does not read", unread_text(tried_model.unread))] if tried_model.unread else []
    facts += [("accuracy on data", agreement_text(tried_model.agreement)), ("offers", ", ".join(content["offers"]))]
    facts += [("no gradients", tried.why_not)] if tried.why_not else []
    print_facts(Console(highlight=False), [*facts, ("method", f"{method}: {METHODS[method].about}")])
