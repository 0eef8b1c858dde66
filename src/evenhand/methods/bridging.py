"""A global phase that lets seeds without a finding of their own walk to those that others found."""

import torch
from torch import Tensor

from evenhand.search.check import Checked
from evenhand.search.search import Search
from evenhand.search.two_phase import TwoPhase


class Bridging(TwoPhase):
    """The two phases, with bridges at the end of the first. It needs nothing but labels."""

    def global_phase(
        self, search: Search, x: Tensor, ids: Tensor, iterations: int | None = None
    ) -> tuple[Checked, Tensor]:
        """The method's own moves; the last iterations are kept for bridges to what was found meanwhile."""
        wanted = search.limits.iterations if iterations is None else iterations
        bridge = len(search.space.sizes).bit_length() + 1  # looks that a bridge may take
        alone = wanted - bridge if wanted > bridge else wanted
        found, found_ids = super().global_phase(search, x, ids, alone)
        left = ~torch.isin(ids, found_ids)
        if alone == wanted or not len(found) or not left.any() or search.should_stop():
            return found, found_ids
        bridged = self._bridge(search, x[left], ids[left], found.x, alone)
        reached = bridged.hit
        return Checked.joined([found, bridged.take(reached)]), torch.cat([found_ids, ids[left][reached]])

    def _bridge(self, search: Search, x: Tensor, ids: Tensor, donors: Tensor, step: int) -> Checked:
        """Take over one attribute after another from a random finding; bisect for the first that makes a finding.

        A random one keeps findings further apart than the nearest would. The far end of a bridge has all non-protected
        values of a finding, so it is discriminatory by definition, where the schema lets the seed go so far.
        """
        space = search.space
        draws = search.draws(ids, "global", x.shape[1] + 1, 1).derived(x.shape[1] + 1)
        *order_numbers, donor_number = draws.all_of(step).unbind(dim=1)
        chosen = donors[(donor_number * len(donors)).long()]
        donor = space.with_combination(chosen, space.combination(x))
        differs = x != donor
        order = (
            torch.where(differs, torch.stack(order_numbers, dim=1), 1.0).argsort(dim=1).argsort(dim=1)
        )  # (n, d) places
        near, far = torch.zeros_like(ids), differs.sum(dim=1)  # how many attributes are taken over: no finding, one
        while int((far - near).max()) > 1:
            middle = (near + far) // 2
            checked = search.look(torch.where(order < middle[:, None], donor, x), "global", step, ids)
            near, far = torch.where(checked.hit, near, middle), torch.where(checked.hit, middle, far)
            step += 1
        return search.look(torch.where(order < far[:, None], donor, x), "global", step, ids)
