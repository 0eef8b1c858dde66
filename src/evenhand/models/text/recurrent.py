"""The paper's networks for text: three recurrent layers of ten states and a linear head, over fixed word vectors.

`Recurrence` runs them by hand: many texts at once, from any point in a text, with gradients by the word vectors.

torch's own layers start at the first word, pad or pack, and build a graph of every step for a gradient. Here a batch is
kept as columns, sorted by length, and each step takes the columns that are still running, so nothing is padded.

All layers run in one step, as a wave: while the first reads word t, the second reads what the first made of word
t - 1, and so on. So the layers are one layer with all their states, whose weights are zero but for two bands, and a
text of w words takes w + layers - 1 steps. A layer that the wave has not reached yet is kept at zero.

A step is one matrix product and one call of the logistic function for all gates: tanh(z) = 2 s(2 z) - 1, which torch
computes several times faster than its tanh. The factors of two are put into the weights beforehand (exactly, being
powers of two): rows of gates that tanh squashes are doubled, states are kept as h / 2 and cells as 2 c.

A column's result must not depend on its company, down to the last bit; so columns are filled up to a multiple of
COLUMNS, below which torch's functions take other paths.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from evenhand.errors import EvenhandError
from evenhand.models.network import load_weights, network_files, save_weights

FORMAT = "evenhand recurrent network 1"
Cell = Literal["lstm", "gru"]
CELLS: dict[str, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
LAYERS, STATES = 3, 10
COLUMNS = 16
sigmoid_slope = torch.ops.aten.sigmoid_backward.grad_input  # (g, s) to g s (1 - s)


class Recurrent(nn.Module):
    """Reads word vectors, returns logits from the last layer's state after the last word."""

    def __init__(self, cell: Cell, dimensions: int, outputs: int, layers: int = LAYERS, states: int = STATES) -> None:
        super().__init__()
        self.cell: Cell = cell
        self.shape = {"dimensions": dimensions, "layers": layers, "states": states, "outputs": outputs}
        self.layers = CELLS[cell](dimensions, states, layers, batch_first=True)
        self.head = nn.Linear(states, outputs)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(n, words, dimensions) padded vectors and (n,) lengths to (n, classes); padding is never read."""
        packed = pack_padded_sequence(vectors, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, last = self.layers(packed)
        state = last[0] if self.cell == "lstm" else last  # (layers, n, states)
        logits: Tensor = self.head(state[-1])
        return logits


def save_recurrent(network: Recurrent, description: dict[str, Any], path: Path) -> None:
    """Write `path`.safetensors and `path`.json; word vectors are not part of a network.

    A description with a `format` of its own says that the network must be read in another way.
    """
    save_weights(network, {"format": FORMAT, "cell": network.cell, **network.shape, **description}, path)


def load_recurrent(path: Path, expected: str = FORMAT) -> tuple[Recurrent, dict[str, Any]]:
    """Read a network and its description from `path`.safetensors and `path`.json."""
    return load_weights(path, expected, _from_description)


def _from_description(description: dict[str, Any], path: Path) -> Recurrent:
    cell = description.get("cell")
    sizes = {name: description.get(name) for name in ("dimensions", "outputs", "layers", "states")}
    if cell not in CELLS or not _are_sizes(sizes):
        raise EvenhandError(
            f"{network_files(path)[1]} does not describe a network: it needs a cell ({', '.join(CELLS)}) and whole "
            "numbers for dimensions, layers, states and outputs. Make the file again with `evenhand train`."
        )
    return Recurrent(cell, **sizes)


def _are_sizes(sizes: dict[str, Any]) -> TypeGuard[dict[str, int]]:
    return all(type(size) is int and size > 0 for size in sizes.values())


class StepPlan(NamedTuple):
    """Which columns run at each step. Columns are sequences, the longest first."""

    running: list[int]  # columns that run at each step
    active: list[int]  # the same, filled up to a multiple of COLUMNS
    offset: list[int]  # where each step's columns begin when all steps are written side by side
    total: int

    @staticmethod
    def of(steps: Tensor) -> "StepPlan":
        """(n,) the steps of each sequence, in falling order and all above zero."""
        every = torch.arange(int(steps[0]), device=steps.device)
        running = torch.searchsorted(-steps, -every)  # (steps,) columns with more steps than that
        active = (running + COLUMNS - 1) // COLUMNS * COLUMNS
        offset = active.cumsum(0) - active
        return StepPlan(running.tolist(), active.tolist(), offset.tolist(), int(active.sum()))


class Frame:
    """The tensors of one step of `size` columns. Views are made once, since making them costs as much as using them."""

    def __init__(self, depth: int, states: int, first: int, size: int, device: torch.device) -> None:
        shape = (depth, states, size)
        self.gates = torch.empty(depth * 4 * states, size, device=device)
        self.first = self.gates[:first]
        self.blocks = self.gates.view(depth, 4, states, size)
        self.parts = self.blocks.unbind(1)
        self.h, self.c, self.squashed, self.centred, self.spare = torch.empty(5, *shape, device=device).unbind()
        self.flat = self.h.view(depth * states, size)
        self.before: tuple[Tensor, ...] = ()  # the h and the c that came in

    @property
    def size(self) -> int:
        """How many columns."""
        return self.gates.shape[1]


@dataclass
class Trace:
    """What a run leaves."""

    last: Tensor  # (states, n) the last layer's states at the end of each sequence
    states: Tensor  # (width, m) all states where they were wanted
    frames: list[Frame] = field(default_factory=list)  # of every step, if they were kept


class WantedStates(NamedTuple):
    """The states of some columns after some steps, (m,) each."""

    step: Tensor
    column: Tensor


class Recurrence:
    """A `Recurrent` network's layers as one wave over columns."""

    def __init__(self, network: Recurrent) -> None:
        self.lstm = network.cell == "lstm"
        self.states: int = network.shape["states"]
        self.depth: int = network.shape["layers"]
        self.delay = self.depth - 1  # steps from the first layer to the last
        self.all = self.states * self.depth
        self.width = 2 * self.all if self.lstm else self.all  # rows of a state: h of all layers, and c for an LSTM
        self.head_weight, self.head_bias = 2 * network.head.weight.detach(), network.head.bias.detach()[:, None]
        self.device = self.head_weight.device
        weights = {name: value.detach().cpu() for name, value in network.layers.named_parameters()}
        self.read = self._read(weights).to(self.device)  # (first, dimensions)
        self.first = len(self.read)
        weight, bias = self._wave(weights)
        self.weight, self.bias = weight.to(self.device), bias.to(self.device)  # (4 * all, all), (4 * all, 1)
        self.transposed = self.weight.t().contiguous()

    def _blocks(self) -> list[tuple[int, bool, bool, float]]:
        """Of each of a layer's blocks: torch's gate, whether it reads the input and the state, its scale.

        An LSTM's are i, f, o, g; a GRU's r, z, what n reads, and what the state gives to n.
        """
        if self.lstm:
            return [(0, True, True, 1.0), (1, True, True, 1.0), (3, True, True, 1.0), (2, True, True, 2.0)]
        return [(0, True, True, 1.0), (1, True, True, 1.0), (2, True, False, 2.0), (2, False, True, 2.0)]

    def _read(self, weights: dict[str, Tensor]) -> Tensor:
        s = self.states
        blocks = [(gate, scale) for gate, reads, _, scale in self._blocks() if reads]
        return torch.cat([scale * weights["weight_ih_l0"][gate * s : (gate + 1) * s] for gate, scale in blocks])

    def _wave(self, weights: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        s = self.states
        weight = torch.zeros(self.depth, 4, s, self.depth, s)
        bias = torch.zeros(self.depth, 4, s)
        for layer in range(self.depth):
            for block, (gate, reads, gives, scale) in enumerate(self._blocks()):
                rows = slice(gate * s, (gate + 1) * s)
                if reads:
                    bias[layer, block] += scale * weights[f"bias_ih_l{layer}"][rows]
                if reads and layer:
                    weight[layer, block, :, layer - 1] = 2 * scale * weights[f"weight_ih_l{layer}"][rows]
                if gives:
                    bias[layer, block] += scale * weights[f"bias_hh_l{layer}"][rows]
                    weight[layer, block, :, layer] = 2 * scale * weights[f"weight_hh_l{layer}"][rows]
        return weight.view(4 * self.all, self.all), bias.view(-1, 1)

    def project(self, vectors: Tensor) -> Tensor:
        """(words, dimensions) to (first, words): what the first layer reads of each word, computed once."""
        return self.read @ vectors.t()

    def start(self, n: int) -> Tensor:
        """(width, n) the state before the first word."""
        return torch.zeros(self.width, n, device=self.device)

    def forward(
        self,
        read: Tensor,
        plan: StepPlan,
        start: Tensor,
        behind: Tensor | None = None,
        wanted: WantedStates | None = None,
        keep: bool = False,
    ) -> Trace:
        """Run the wave over projected words (first, total), side by side as the plan has them.

        `behind` (n,) are the steps that each column has behind it, after which it had the state `start` (width, n).
        """
        n, size = start.shape[1], plan.active[0]
        at = functional.pad(start, (0, size - n)).view(-1, self.depth, self.states, size).unbind()
        h, c, flat = at[0], at[-1], at[0].reshape(self.all, size)
        done = torch.zeros(size, dtype=torch.long, device=self.device)
        done[:n] = 0 if behind is None else behind
        trace = Trace(torch.empty(self.states, n, device=self.device), start[:, :0])
        step = self._lstm_step if self.lstm else self._gru_step
        picker = None if wanted is None else _Picker(wanted, len(plan.active))
        frame: Frame | None = None
        after = [*plan.running[1:], 0]
        for number, (part, active) in enumerate(zip(torch.split(read, plan.active, dim=1), plan.active, strict=True)):
            if active != size:
                size = active
                h, c, flat = h[:, :, :size], c[:, :, :size], flat[:, :size]
                frame = None
            if frame is None or keep:
                frame = Frame(self.depth, self.states, self.first, size, self.device)
            torch.addmm(self.bias, self.weight, flat, out=frame.gates)
            frame.first.add_(part)
            step(frame, h, c)
            if keep:
                frame.before = (h, c)
                trace.frames.append(frame)
            h, c, flat = frame.h, frame.c, frame.flat
            if number < self.delay:
                self._hold_back(frame, done[:size] + number)
            if picker is not None:
                picker.pick(number, (h, c) if self.lstm else (h,))
            ending, running = after[number], plan.running[number]
            if ending < running:
                trace.last[:, ending:running] = h[-1, :, ending:running]
        if picker is not None:
            trace.states = picker.states(self.start(0))
        return trace

    def _hold_back(self, frame: Frame, steps: Tensor) -> None:
        """Layers that the wave has not reached after so many steps (size,) stay at zero."""
        for layer in range(1, self.depth):
            reached = steps >= layer
            frame.h[layer].mul_(reached)
            frame.c[layer].mul_(reached)

    def _lstm_step(self, frame: Frame, h: Tensor, c: Tensor) -> None:  # noqa: ARG002 - h is in the gates
        frame.gates.sigmoid_()
        i, f, o, g = frame.parts
        torch.sub(g, 0.5, out=frame.spare)
        torch.mul(f, c, out=frame.c).addcmul_(i, frame.spare, value=4)
        torch.sigmoid(frame.c, out=frame.squashed)
        torch.sub(frame.squashed, 0.5, out=frame.centred)
        torch.mul(o, frame.centred, out=frame.h)

    def _gru_step(self, frame: Frame, h: Tensor, c: Tensor) -> None:  # noqa: ARG002 - there is no c
        r, z, reads, gives = frame.parts
        frame.blocks[:, :2].sigmoid_()
        torch.addcmul(reads, r, gives, out=frame.squashed).sigmoid_()
        torch.sub(frame.squashed, 0.5, out=frame.centred)
        torch.lerp(frame.centred, h, z, out=frame.h)

    def logits(self, last: Tensor) -> Tensor:
        """(classes, n) from the last layer's states (states, n)."""
        n = last.shape[1]
        return torch.addmm(self.head_bias, self.head_weight, functional.pad(last, (0, -n % COLUMNS)))[:, :n]

    def backward(self, trace: Trace, plan: StepPlan, slope: Tensor) -> Tensor:
        """(dimensions, total) the gradient by every word's vector, from (classes, n) by the logits."""
        n = slope.shape[1]
        given = (self.head_weight.t() @ functional.pad(slope, (0, -n % COLUMNS)))[:, :n]
        back = self._lstm_back if self.lstm else self._gru_back
        slopes = slope.new_empty(self.first, plan.total)
        by: Frame | None = None
        entered = 0
        for part, frame, running in zip(
            reversed(torch.split(slopes, plan.active, dim=1)),
            reversed(trace.frames),
            reversed(plan.running),
            strict=True,
        ):
            size = part.shape[1]
            if by is None or by.size != size:
                before, by = by, Frame(self.depth, self.states, self.first, size, self.device)
                by.h.zero_()
                by.c.zero_()
                if before is not None:
                    by.h[:, :, : before.size] = before.h
                    by.c[:, :, : before.size] = before.c
            if running > entered:
                by.h[-1, :, entered:running] += given[:, entered:running]
                entered = running
            back(frame, by)
            part.copy_(by.first)
        return self.read.t() @ slopes

    def _lstm_back(self, frame: Frame, by: Frame) -> None:
        """From the slopes by h and c after a step to those by its gates and by h and c before it, all in `by`."""
        i, f, o, _ = frame.parts
        by_i, by_f, by_o, by_g = by.parts
        torch.mul(by.h, o, out=by.spare)
        by.c.add_(sigmoid_slope(by.spare, frame.squashed, grad_input=by.squashed))
        torch.mul(by.h, frame.centred, out=by_o)
        torch.mul(by.c, frame.before[1], out=by_f)
        torch.mul(by.c, 4, out=by.spare)
        torch.mul(by.spare, frame.spare, out=by_i)
        torch.mul(by.spare, i, out=by_g)
        sigmoid_slope(by.gates, frame.gates, grad_input=by.gates)
        torch.mm(self.transposed, by.gates, out=by.flat)
        by.c.mul_(f)

    def _gru_back(self, frame: Frame, by: Frame) -> None:
        r, z, _, gives = frame.parts
        by_r, by_z, by_reads, by_gives = by.parts
        torch.sub(frame.before[0], frame.centred, out=by.spare)
        torch.mul(by.h, by.spare, out=by_z)
        torch.mul(by.h, z, out=by.centred)
        torch.sub(by.h, by.centred, out=by.spare)
        sigmoid_slope(by.spare, frame.squashed, grad_input=by_reads)
        torch.mul(by_reads, gives, out=by_r)
        torch.mul(by_reads, r, out=by_gives)
        sigmoid_slope(by.blocks[:, :2], frame.blocks[:, :2], grad_input=by.blocks[:, :2])
        torch.addmm(by.centred.view(self.all, -1), self.transposed, by.gates, out=by.flat)


class _Picker:
    """Collects wanted states on the way, so that the others need not be kept."""

    def __init__(self, wanted: WantedStates, steps: int) -> None:
        self._order = wanted.step.argsort(stable=True)
        counts = torch.bincount(wanted.step, minlength=steps).tolist()
        self._columns = torch.split(wanted.column[self._order], counts)
        self._found: list[Tensor] = []

    def pick(self, number: int, parts: tuple[Tensor, ...]) -> None:
        """Take from parts (depth, states, size) after a step."""
        columns = self._columns[number]
        if columns.shape[0]:
            self._found.append(torch.cat([part.index_select(2, columns).flatten(0, 1) for part in parts]))

    def states(self, nothing: Tensor) -> Tensor:
        """(width, m) in the order in which they were wanted."""
        found = torch.cat([nothing, *self._found], dim=1)
        return found.index_select(1, self._order.argsort())
