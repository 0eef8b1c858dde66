"""The search of texts on a CUDA device; skipped where there is none."""

import pytest
import torch

from evenhand.methods.registry import TEXT_METHODS
from evenhand.models.text.recurrent import Cell
from evenhand.search.search import Limits
from tests.methods.test_text_methods import Ran
from tests.worlds.text_search import near_tie, plain_logits, text_world

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("name", TEXT_METHODS)
@pytest.mark.parametrize(("attribute", "cell"), [("religion", "lstm"), ("country", "gru")])
def test_findings_hold(name: str, attribute: str, cell: Cell) -> None:
    world = text_world(attribute, cell)
    ran = Ran(name, text_world(attribute, cell, device="cuda"), Limits(iterations=5, steps=10), device="cuda")
    samples, swaps = torch.tensor(ran.column("sample")), torch.tensor(ran.column("witness")).squeeze(1)
    assert len(samples) > 20
    pairs = zip(world.render(samples), world.render(world.space.with_combination(samples, swaps)), strict=True)
    for pair, label, witness_label in zip(pairs, ran.column("label"), ran.column("witness_label"), strict=True):
        logits = [plain_logits(world.network, world.vectors, text) for text in pair]
        if not any(map(near_tie, logits)):
            assert [int(each.argmax()) for each in logits] == [label, witness_label]
            assert label != witness_label


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_outputs_and_gradients_are_those_of_the_cpu(cell: Cell) -> None:
    here, there = text_world("religion", cell), text_world("religion", cell, device="cuda")
    x = here.samples(200, swapped=True)
    inputs = here.space.inputs(x)
    cpu, cuda = here.model(), there.model(device="cuda")
    wanted, found = cpu.outputs(inputs), cuda.outputs(inputs.cuda())
    torch.testing.assert_close(found.scores.cpu(), wanted.scores, atol=1e-5, rtol=0)
    slopes = cuda.gradients(inputs.cuda(), wanted.labels.cuda()).cpu()
    torch.testing.assert_close(slopes, cpu.gradients(inputs, wanted.labels), atol=1e-5, rtol=1e-3)
