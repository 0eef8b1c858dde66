"""Interval bounds: what a network can say about any point of a box of inputs.

A box is a lower and an upper corner. Each step of a network maps a box to one that holds everything the step can make
of its points, so the last box holds every output. It may hold more than that: a label that is proved is certain, one
that is not proved may still be the same everywhere. Bounds are differentiable, so a network can be trained on them.

A proof must hold for the numbers that a computer computes, not for those of mathematics. With `rounding`, the size of
a unit's rounding error, every box is widened by more than the error that a step can make on any of its points, however
its sums are ordered. `certified_labels` computes bounds in float64 for networks that run in float32.
"""

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.models.network import FeedForward
from evenhand.models.text.recurrent import Recurrent

FLOAT32_ROUNDING = 2.0**-24  # the largest relative error of one operation
SQUASHING_ERRORS = 16  # units: logistic function and tanh, also where tanh(z) is computed as 2 s(2 z) - 1
START_ERRORS = 128  # units: a state that was read beforehand, by the same network in another order of sums
SPARE_SUMS = 4  # roundings of a sum beside those of its products: biases, parts that are added later
NO_LABEL = -1


class Interval(NamedTuple):
    """Numbers that are each known to lie between two others of the same shape."""

    low: Tensor
    high: Tensor

    def widened(self, by: Tensor | float) -> "Interval":
        """The same with more room on both sides."""
        return Interval(self.low - by, self.high + by)

    def plus(self, other: "Interval") -> "Interval":
        """All sums."""
        return Interval(self.low + other.low, self.high + other.high)

    def where(self, condition: Tensor, other: "Interval") -> "Interval":
        """This one where the condition holds."""
        return Interval(torch.where(condition, self.low, other.low), torch.where(condition, self.high, other.high))

    @property
    def size(self) -> Tensor:
        """The largest absolute value."""
        return torch.maximum(self.low.abs(), self.high.abs())


class CellState(NamedTuple):
    """What a recurrent network knows at a point of a text, (layers, n, states): h, and c for an LSTM."""

    h: Tensor
    c: Tensor | None = None


def feed_forward_bounds(network: FeedForward, low: Tensor, high: Tensor, rounding: float = 0.0) -> Interval:
    """Bounds of the logits (n, classes) over boxes with the corners low and high (n, attributes)."""
    return _linear(network.head, _last_hidden(network, Interval(low, high), rounding), rounding)


def feed_forward_margins(network: FeedForward, low: Tensor, high: Tensor, rounding: float = 0.0) -> Tensor:
    """(n, classes, classes) how much logit i is above logit j at least, over boxes (n, attributes)."""
    return _margins(network.head, _last_hidden(network, Interval(low, high), rounding), rounding)


def recurrent_bounds(
    network: Recurrent,
    low: Tensor,
    high: Tensor,
    lengths: Tensor,
    rounding: float = 0.0,
    start: CellState | None = None,
) -> Interval:
    """Bounds of the logits (n, classes) over boxes of word vectors (n, words, e) of texts of some lengths (n,).

    The texts begin with no state or with `start`, what the network knows after words that are the same everywhere.
    """
    read = read_bounds(network, low, high, rounding)
    return _linear(network.head, _last_state(network, read, lengths, rounding, start), rounding)


def recurrent_margins(
    network: Recurrent,
    low: Tensor,
    high: Tensor,
    lengths: Tensor,
    rounding: float = 0.0,
    start: CellState | None = None,
) -> Tensor:
    """(n, classes, classes) how much logit i is above logit j at least, over boxes of word vectors (n, words, e)."""
    return read_margins(network, read_bounds(network, low, high, rounding), lengths, rounding, start)


def read_bounds(network: Recurrent, low: Tensor, high: Tensor, rounding: float = 0.0) -> Interval:
    """(..., gates) what the first layer's gates can read of words in boxes (..., e)."""
    weights = _LayerWeights.of(network, 0)
    return _affine(weights.read, weights.read_bias, Interval(low, high), rounding)


def read_hull(network: Recurrent, words: Tensor, rounding: float = 0.0) -> Interval:
    """(words, gates) what the first layer's gates can read of any of some terms (terms, words, e).

    It is tighter than the bounds over the box around the terms, which holds many points that are no term.
    """
    read = read_bounds(network, words, words, rounding)
    return Interval(read.low.amin(dim=0), read.high.amax(dim=0))


def read_margins(
    network: Recurrent, read: Interval, lengths: Tensor, rounding: float = 0.0, start: CellState | None = None
) -> Tensor:
    """As `recurrent_margins`, from what the first layer's gates read (n, words, gates)."""
    return _margins(network.head, _last_state(network, read, lengths, rounding, start), rounding)


def worst_logits(margins: Tensor, labels: Tensor) -> Tensor:
    """(n, classes) logits that are as bad for the labels (n,) as the margins allow: their loss bounds the loss."""
    row = margins[torch.arange(len(labels), device=labels.device), labels]  # (n, classes) label above each other
    return -row


def certain_labels(margins: Tensor) -> Tensor:
    """(n,) the label that is above all others everywhere in the box, NO_LABEL where none is proved to be."""
    own = torch.eye(margins.shape[1], dtype=torch.bool, device=margins.device)
    above_all = ((margins > 0) | own).all(dim=2)  # (n, classes)
    return torch.where(above_all.any(dim=1), above_all.int().argmax(dim=1), NO_LABEL)


@torch.no_grad()
def certified_labels(
    network: FeedForward | Recurrent,
    low: Tensor,
    high: Tensor,
    lengths: Tensor | None = None,
    rounding: float = FLOAT32_ROUNDING,
    start: CellState | None = None,
) -> Tensor:
    """(n,) the label of every point of a box, NO_LABEL where the bounds do not prove that there is only one.

    `lengths` (n,) are those of texts, `start` what was read before. It holds for a network that computes with the
    rounding error given.
    """
    exact = copy.deepcopy(network).double()
    if isinstance(exact, FeedForward):
        return certain_labels(feed_forward_margins(exact, low.double(), high.double(), rounding))
    if lengths is None:
        lengths = torch.full((len(low),), low.shape[1], device=low.device)
    if start is not None:
        start = CellState(start.h.double(), None if start.c is None else start.c.double())
    return certain_labels(recurrent_margins(exact, low.double(), high.double(), lengths, rounding, start))


def certified(
    network: FeedForward | Recurrent,
    low: Tensor,
    high: Tensor,
    lengths: Tensor | None = None,
    rounding: float = FLOAT32_ROUNDING,
) -> Tensor:
    """(n,) true where it is proved that no point of the box changes the label."""
    return certified_labels(network, low, high, lengths, rounding) != NO_LABEL


def _linear(layer: nn.Linear, x: Interval, rounding: float) -> Interval:
    return _affine(layer.weight, layer.bias, x, rounding)


def _affine(weight: Tensor, bias: Tensor, x: Interval, rounding: float) -> Interval:
    """Bounds of weight x + bias. Where low and high are one, it is the plain product."""
    centre = functional.linear((x.low + x.high) / 2, weight, bias)
    radius = functional.linear((x.high - x.low) / 2, weight.abs())
    if rounding:
        terms = functional.linear(x.size, weight.abs(), bias.abs())
        radius = radius + rounding * (weight.shape[1] + SPARE_SUMS) * terms
    return Interval(centre - radius, centre + radius)


def _last_hidden(network: FeedForward, x: Interval, rounding: float) -> Interval:
    for layer in network.hidden:
        assert isinstance(layer, nn.Linear)
        x = Interval(*map(torch.relu, _linear(layer, x, rounding)))
    return x


def _margins(head: nn.Linear, x: Interval, rounding: float) -> Tensor:
    """The difference of two logits is bounded through the difference of their weights: tighter than the logits are."""
    weight = head.weight[:, None] - head.weight  # (classes, classes, states)
    bias = head.bias[:, None] - head.bias
    centre = torch.einsum("nd,ijd->nij", (x.low + x.high) / 2, weight) + bias
    radius = torch.einsum("nd,ijd->nij", (x.high - x.low) / 2, weight.abs())
    if rounding:
        terms = functional.linear(x.size, head.weight.abs(), head.bias.abs())  # (n, classes)
        radius = radius + rounding * (head.weight.shape[1] + SPARE_SUMS) * (terms[:, :, None] + terms[:, None])
    return centre - radius


def _last_state(
    network: Recurrent, read: Interval, lengths: Tensor, rounding: float, start: CellState | None
) -> Interval:
    """The last layer's state (n, states) after the last word; the layers run one after the other."""
    n, words = read.low.shape[:2]
    running = (torch.arange(words, device=read.low.device)[:, None] < lengths.to(read.low.device))[:, :, None]
    step = _lstm_step if network.cell == "lstm" else _gru_step
    nothing = read.low.new_zeros(n, network.shape["states"])
    last = Interval(nothing, nothing)
    for layer in range(network.shape["layers"]):
        weights = _LayerWeights.of(network, layer)
        at = _begin(start, layer, nothing, rounding)
        states: list[Interval] = []
        for word in range(words):
            new = step(weights, Interval(read.low[:, word], read.high[:, word]), at, rounding)
            at = (new[0].where(running[word], at[0]), new[1].where(running[word], at[1]))
            states.append(at[0])
        last = at[0]
        if layer + 1 < network.shape["layers"]:
            low, high = (torch.stack(corners, dim=1) for corners in zip(*states, strict=True))
            above = _LayerWeights.of(network, layer + 1)
            read = _affine(above.read, above.read_bias, Interval(low, high), rounding)  # (n, words, gates)
    return last


class _LayerWeights(NamedTuple):
    read: Tensor  # (gates, inputs)
    read_bias: Tensor
    state: Tensor  # (gates, states)
    state_bias: Tensor

    @staticmethod
    def of(network: Recurrent, layer: int) -> "_LayerWeights":
        names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        return _LayerWeights(*(getattr(network.layers, f"{name}_l{layer}") for name in names))


def _begin(start: CellState | None, layer: int, nothing: Tensor, rounding: float) -> tuple[Interval, Interval]:
    """The h and the c of a layer before the first word; a GRU's c is never read."""
    if start is None:
        return Interval(nothing, nothing), Interval(nothing, nothing)
    h, c = start.h[layer], start.h[layer] if start.c is None else start.c[layer]
    error = START_ERRORS * rounding
    return Interval(h, h).widened(error), Interval(c, c).widened(error * (1 + c.abs()))


def _lstm_step(
    weights: _LayerWeights, read: Interval, at: tuple[Interval, Interval], rounding: float
) -> tuple[Interval, Interval]:
    h, c = at
    gates = read.plus(_affine(weights.state, weights.state_bias, h, rounding))
    i, f, g, o = (Interval(*parts) for parts in zip(gates.low.chunk(4, 1), gates.high.chunk(4, 1), strict=True))
    i, f, o = _logistic(i, rounding), _logistic(f, rounding), _logistic(o, rounding)
    c = _scaled(f, c).plus(_scaled(i, _tanh(g, rounding)))
    if rounding:
        c = c.widened(SQUASHING_ERRORS * rounding * (1 + c.size))
    return _scaled(o, _tanh(c, rounding)), c


def _gru_step(
    weights: _LayerWeights, read: Interval, at: tuple[Interval, Interval], rounding: float
) -> tuple[Interval, Interval]:
    h, unused = at
    gives = _affine(weights.state, weights.state_bias, h, rounding)
    size = h.low.shape[1]
    gates = Interval(
        read.low[:, : 2 * size] + gives.low[:, : 2 * size], read.high[:, : 2 * size] + gives.high[:, : 2 * size]
    )
    both = _logistic(gates, rounding)
    r, z = Interval(both.low[:, :size], both.high[:, :size]), Interval(both.low[:, size:], both.high[:, size:])
    reset = _scaled(r, Interval(gives.low[:, 2 * size :], gives.high[:, 2 * size :]))
    inner = reset.plus(Interval(read.low[:, 2 * size :], read.high[:, 2 * size :]))
    if rounding:
        inner = inner.widened(SQUASHING_ERRORS * rounding * (1 + inner.size))
    n = _tanh(inner, rounding)
    # (1 - z) n + z h is linear in z, so its ends are at those of z, with one z for both terms.
    low = torch.minimum(torch.lerp(n.low, h.low, z.low), torch.lerp(n.low, h.low, z.high))
    high = torch.maximum(torch.lerp(n.high, h.high, z.low), torch.lerp(n.high, h.high, z.high))
    new = Interval(low, high)
    return (new.widened(SQUASHING_ERRORS * rounding) if rounding else new), unused


def _scaled(factor: Interval, x: Interval) -> Interval:
    """All products with a factor that is never below zero: of the four corners, two can be the lowest."""
    low = torch.minimum(factor.low * x.low, factor.high * x.low)
    return Interval(low, torch.maximum(factor.low * x.high, factor.high * x.high))


def _logistic(x: Interval, rounding: float) -> Interval:
    y = Interval(torch.sigmoid(x.low), torch.sigmoid(x.high))
    if rounding:
        y = y.widened(SQUASHING_ERRORS * rounding)
        y = Interval(y.low.clamp_min(0), y.high.clamp_max(1))
    return y


def _tanh(x: Interval, rounding: float) -> Interval:
    y = Interval(torch.tanh(x.low), torch.tanh(x.high))
    return y.widened(SQUASHING_ERRORS * rounding) if rounding else y
