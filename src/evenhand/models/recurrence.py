"""Recurrent networks run by hand: many texts at once, from any point in a text, with gradients by the word vectors.

torch's own layers start at the first word, pad or pack, and build a graph of every step for a gradient. Here a batch is
kept as columns, sorted by length, and each step takes the columns that are still running, so nothing is padded. A step
is a matrix product and one call of the logistic function for all gates: tanh(z) = 2 s(2 z) - 1, which torch computes
several times faster than its tanh, so the weights of such gates are doubled beforehand.

A column's result must not depend on its company, down to the last bit; so columns are filled up to a multiple of
COLUMNS, below which torch's functions take other paths.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.models.recurrent import Recurrent

COLUMNS = 16


class Plan(NamedTuple):
    """Which columns run at each step. Columns are sequences, the longest first."""

    active: list[int]  # columns that run at each step, a multiple of COLUMNS
    offset: list[int]  # where each step's columns begin when all steps are written side by side
    total: int
    last: Tensor  # (n,) where each sequence's last step is written

    @staticmethod
    def of(lengths: Tensor) -> "Plan":
        """(n,) lengths, in falling order and all above zero."""
        steps = torch.arange(int(lengths[0]), device=lengths.device)
        running = (lengths[None, :] > steps[:, None]).sum(dim=1)  # (steps,)
        active = (running + COLUMNS - 1) // COLUMNS * COLUMNS
        offset = active.cumsum(0) - active
        last = offset[lengths - 1] + torch.arange(len(lengths), device=lengths.device)
        return Plan(active.tolist(), offset.tolist(), int(active.sum()), last)

    def before(self, trace: "Trace") -> Tensor:
        """(width, total) the state before each step."""
        earlier = [trace.state[:, at : at + size] for at, size in zip(self.offset, self.active[1:], strict=False)]
        return torch.cat([trace.start, *earlier], dim=1)


@dataclass(frozen=True)
class _Layer:
    """A layer's weights, with doubled rows for the gates that tanh squashes."""

    read: Tensor  # (gates, inputs)
    read_bias: Tensor  # (gates, 1)
    hidden: Tensor  # (gates, states)
    hidden_bias: Tensor  # (gates, 1)


class Trace(NamedTuple):
    """What one layer computed: steps side by side, (…, total)."""

    start: Tensor  # (width, columns) the state before the first step
    state: Tensor  # (width, total) the state after each step: h, and twice c below it for an LSTM
    gates: Tensor | None  # (gates, total) after squashing, kept for a gradient; a GRU adds what the state gave


class Recurrence:
    """A `Recurrent` network's layers as steps over columns."""

    def __init__(self, network: Recurrent) -> None:
        self.lstm = network.cell == "lstm"
        self.states: int = network.shape["states"]
        self.depth: int = network.shape["layers"]
        self.width = 2 * self.states if self.lstm else self.states  # rows of a layer's state: h, and c for an LSTM
        self.head_weight, self.head_bias = network.head.weight.detach(), network.head.bias.detach()[:, None]
        self.layers = [self._layer(network.layers, number) for number in range(self.depth)]

    def _layer(self, rnn: nn.RNNBase, number: int) -> _Layer:
        read, hidden, read_bias, hidden_bias = (
            getattr(rnn, f"{name}_l{number}").detach() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = self.states
        if self.lstm:  # torch's order i, f, g, o becomes i, f, o, g
            order = torch.cat([torch.arange(2 * h), torch.arange(3 * h, 4 * h), torch.arange(2 * h, 3 * h)])
            read, hidden, bias = read[order], hidden[order], (read_bias + hidden_bias)[order]
            scale = torch.ones(4 * h, 1, device=read.device)
            scale[3 * h :] = 2
            return _Layer(scale * read, scale * bias[:, None], scale * hidden, torch.zeros_like(scale))
        scale = torch.ones(3 * h, 1, device=read.device)  # r, z, n
        scale[2 * h :] = 2
        return _Layer(scale * read, scale * read_bias[:, None], scale * hidden, scale * hidden_bias[:, None])

    def project(self, vectors: Tensor) -> Tensor:
        """(words, dimensions) to (gates, words): what the first layer reads of each word, computed once."""
        return torch.addmm(self.layers[0].read_bias, self.layers[0].read, vectors.t())

    def start(self, n: int) -> Tensor:
        """(layers, width, n) the state before the first word."""
        return torch.zeros(self.depth, self.width, n, device=self.head_weight.device)

    def forward(self, first: Tensor, plan: Plan, start: Tensor, keep_gates: bool = False) -> list[Trace]:
        """Run all layers. `first` (gates, total) is the first layer's projected input, `start` (layers, width, n)."""
        start = functional.pad(start, (0, plan.active[0] - start.shape[2]))
        traces: list[Trace] = []
        for number, layer in enumerate(self.layers):
            if number:
                first = torch.addmm(layer.read_bias, layer.read, traces[-1].state[: self.states])
            traces.append(self._run(layer, first, plan, start[number], keep_gates))
        return traces

    def _run(self, layer: _Layer, read: Tensor, plan: Plan, start: Tensor, keep_gates: bool) -> Trace:
        state = torch.empty(self.width, plan.total, device=read.device)
        rows = len(layer.read) if self.lstm else 2 * len(layer.read)
        gates = torch.empty(rows, plan.total, device=read.device) if keep_gates else None
        step = self._lstm_step if self.lstm else self._gru_step
        at = start
        for active, offset in zip(plan.active, plan.offset, strict=True):
            now = slice(offset, offset + active)
            to = state[:, now]
            squashed = step(layer, read[:, now], at[:, :active], to)
            at = to
            if gates is not None:
                gates[:, now] = squashed
        return Trace(start, state, gates)

    def _lstm_step(self, layer: _Layer, read: Tensor, at: Tensor, to: Tensor) -> Tensor:
        """One step from a state to the next; returns i, f, o and s, where the gate g is 2 s - 1. c is kept doubled."""
        h = self.states
        gates = torch.addmm(read, layer.hidden, at[:h]).sigmoid_()
        i, f, o, s = gates.view(4, h, -1).unbind()
        c = torch.mul(f, at[h:], out=to[h:])
        c.addcmul_(i, s, value=4).sub_(i, alpha=2)
        torch.addcmul(o.neg(), o, torch.sigmoid(c), value=2, out=to[:h])
        return gates

    def _gru_step(self, layer: _Layer, read: Tensor, at: Tensor, to: Tensor) -> Tensor:
        """One step from a state to the next; returns r, z, n and what the state gave to each."""
        h = self.states
        given = torch.addmm(layer.hidden_bias, layer.hidden, at)
        gates = (read[: 2 * h] + given[: 2 * h]).sigmoid_()
        fresh = torch.addcmul(read[2 * h :], gates[:h], given[2 * h :]).sigmoid_().mul_(2).sub_(1)
        torch.lerp(fresh, at, gates[h:], out=to)
        return torch.cat([gates, fresh, given])

    def states_after(self, traces: list[Trace], places: Tensor) -> Tensor:
        """(layers, width, n) the states at places (n,) of the steps side by side."""
        return torch.stack([trace.state[:, places] for trace in traces])

    def logits(self, state: Tensor) -> Tensor:
        """(classes, n) from the last layer's states (width, n)."""
        n = state.shape[1]
        filled = functional.pad(state[: self.states], (0, -n % COLUMNS))
        return torch.addmm(self.head_bias, self.head_weight, filled)[:, :n]

    def backward(self, traces: list[Trace], plan: Plan, slope: Tensor) -> Tensor:
        """(dimensions, total) the gradient by every word's vector, from (classes, n) by the logits."""
        given = torch.zeros(self.states, plan.total, device=slope.device)
        n = slope.shape[1]
        given[:, plan.last] = (self.head_weight.t() @ functional.pad(slope, (0, -n % COLUMNS)))[:, :n]
        for layer, trace in zip(reversed(self.layers), reversed(traces), strict=True):
            back = self._lstm_back if self.lstm else self._gru_back
            given = layer.read.t() @ back(layer, trace, plan, given)
        return given

    def _lstm_back(self, layer: _Layer, trace: Trace, plan: Plan, given: Tensor) -> Tensor:
        """(gates, total) the gradient by the gates' inputs, from (states, total) by the layer's outputs."""
        assert trace.gates is not None
        h = self.states
        c = trace.state[h:]
        i, f, o, s = torch.split(trace.gates, h)
        g = 2 * s - 1
        squashed = torch.sigmoid(c).mul_(2).sub_(1)
        by_c = o * (1 - squashed * squashed)  # of h by c
        steep = torch.cat([i * (1 - i) * g, f * (1 - f) * plan.before(trace)[h:] / 2, (1 - g * g).mul_(i).mul_(0.5)])
        steep_o = o * (1 - o) * squashed
        slopes = torch.empty_like(trace.gates)
        dh = dc = torch.zeros(h, 0, device=given.device)
        transposed = layer.hidden.t().contiguous()
        for active, offset in zip(reversed(plan.active), reversed(plan.offset), strict=True):
            now = slice(offset, offset + active)
            missing = active - dh.shape[1]
            if missing:
                dh, dc = (functional.pad(part, (0, missing)) for part in (dh, dc))
            dh = dh + given[:, now]
            dc = torch.addcmul(dc, dh, by_c[:, now])
            gate = slopes[:, now]
            torch.mul(dc, steep[:h, now], out=gate[:h])
            torch.mul(dc, steep[h : 2 * h, now], out=gate[h : 2 * h])
            torch.mul(dh, steep_o[:, now], out=gate[2 * h : 3 * h])
            torch.mul(dc, steep[2 * h :, now], out=gate[3 * h :])
            dc = dc * f[:, now]
            dh = transposed @ gate
        return slopes

    def _gru_back(self, layer: _Layer, trace: Trace, plan: Plan, given: Tensor) -> Tensor:
        assert trace.gates is not None
        h = self.states
        r, z, n, _, state_n = torch.split(trace.gates, [h, h, h, 2 * h, h])
        by_n = (1 - n * n).mul_(1 - z).mul_(0.5)  # of the output by the doubled input of n
        by_r = r * (1 - r) * state_n
        by_z = z * (1 - z) * (plan.before(trace) - n)
        slopes = torch.empty(3 * h, plan.total, device=given.device)
        dh = torch.zeros(h, 0, device=given.device)
        transposed = layer.hidden.t().contiguous()
        for active, offset in zip(reversed(plan.active), reversed(plan.offset), strict=True):
            now = slice(offset, offset + active)
            missing = active - dh.shape[1]
            if missing:
                dh = functional.pad(dh, (0, missing))
            dh = dh + given[:, now]
            fresh = dh * by_n[:, now]
            gate = torch.cat([fresh * by_r[:, now], dh * by_z[:, now], fresh])
            slopes[:, now] = gate
            gate[2 * h :].mul_(r[:, now])
            dh = torch.addmm(dh * z[:, now], transposed, gate)
        return slopes
