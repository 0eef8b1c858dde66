"""Where a search may go from a seed: attributes that stay, that only rise or fall, that move in strides."""

from dataclasses import dataclass

import torch
from torch import Tensor

from evenhand.data.schema import Schema


@dataclass(frozen=True)
class Reach:
    """What a schema's `moves` and `stride` say, as (d,) tensors."""

    movable: Tensor  # 1 for attributes that may move, 0 for others
    rises: Tensor  # true where a value may be above its seed's
    falls: Tensor
    stride: Tensor  # codes per move
    lower: Tensor
    upper: Tensor
    limited: bool  # whether any attribute has a limit
    strides: bool  # whether any stride is above one

    @classmethod
    def of(cls, schema: Schema, lower: Tensor, upper: Tensor) -> "Reach":
        """The limits of a schema."""
        moves = [attribute.moves for attribute in schema.attributes]
        strides = [attribute.stride for attribute in schema.attributes]
        return cls(
            torch.tensor([float(move != "none") for move in moves], device=lower.device),
            torch.tensor([move in ("any", "up") for move in moves], device=lower.device),
            torch.tensor([move in ("any", "down") for move in moves], device=lower.device),
            torch.tensor(strides, dtype=torch.float32, device=lower.device),
            lower,
            upper,
            limited=set(moves) != {"any"} or max(strides) > 1,
            strides=max(strides) > 1,
        )

    def strided(self, x: Tensor, amount: Tensor) -> Tensor:
        """(n, d) amounts made whole strides, away from zero, but not beyond the domain."""
        if not self.strides:
            return amount
        strides = amount.sign() * (amount.abs() / self.stride).ceil()
        most, least = ((self.upper - x) / self.stride).floor(), -((x - self.lower) / self.stride).floor()
        return torch.minimum(torch.maximum(strides, least), most) * self.stride

    def kept_to(self, x: Tensor, seed: Tensor) -> Tensor:
        """(n, d) samples with every attribute at the nearest value that may be reached from its seed's."""
        most = torch.where(self.rises, ((self.upper - seed) / self.stride).floor(), 0.0)
        least = torch.where(self.falls, -((seed - self.lower) / self.stride).floor(), 0.0)
        strides = ((x - seed) / self.stride).round()
        return seed + torch.minimum(torch.maximum(strides, least), most) * self.stride
