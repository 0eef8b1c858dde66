"""Repairs of networks for tables: what they learn from, what they minimise, what they promise."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evenhand.choices import Vote
from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.measures.verdict import Judge
from evenhand.models.bounds import NO_LABEL, certified_labels
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.repairs import table as table_repairs
from evenhand.repairs import table_training
from evenhand.repairs.table import Workshop
from evenhand.repairs.table_training import CrossEntropy, Material, Recipe, Scaled, blind_network, fit
from evenhand.repairs.votes import most_votes, own_votes, pair_votes
from evenhand.search.space import TableSpace
from tests.worlds.repair import (
    WIDTHS,
    findings_of,
    material_of,
    same_weights,
    table,
    table_schema,
    trained,
    with_other_held_out_rows,
)
from tests.worlds.schemas import all_variants, has_witness, linear, network_of, schema_of

DOMAIN = all_variants(table_schema(), [0, 1, 2, 3], [0, 0, 0, 0])
EVERYONE = torch.tensor(DOMAIN, dtype=torch.float32)


def workshop_of(data: Dataset, seed: int = 0, repeats: int = 1, original: nn.Module | None = None) -> Workshop:
    return Workshop(material_of(data, seed=seed), Classifier(original or network_of(4, 2, seed=5)), repeats)


def made(data: Dataset, seed: int = 0) -> dict[str, nn.Module]:
    """One network by each repair."""
    shop = workshop_of(data, seed)
    findings = findings_of(DOMAIN[:40], [1] * 40)
    plain = shop.retrained()
    repairs = [plain, shop.blind(), shop.pairing(1.0), shop.certified(1.0), shop.average()]
    repairs.append(shop.augment(findings, 0.5, "models", plain.networks))
    return {repair.name: repair.networks[0] for repair in repairs}


@pytest.mark.parametrize("widths", [(4, 5, 3, 2), (4, 2)])
def test_folding_keeps_the_function(widths: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    scaled = Scaled(FeedForward(widths), torch.tensor([1.0, -2.0, 30.0, 0.0]), torch.tensor([0.5, 2.0, 11.0, 1.0]))
    before = scaled(EVERYONE)
    assert torch.allclose(scaled.folded()(EVERYONE), before, atol=1e-5)
    assert torch.equal(scaled(EVERYONE), before)  # and leaves the network as it was


@pytest.mark.parametrize("hidden", [(8, 4), ()])
def test_a_blinded_network_reads_the_codes_given_and_no_others(hidden: tuple[int, ...]) -> None:
    network = network_of(4, 3, seed=1, hidden=hidden)
    blind = blind_network(network, [0, 2], torch.tensor([2.0, 3.0]))
    held = EVERYONE.clone()
    held[:, 0], held[:, 2] = 2, 3
    assert torch.allclose(blind(EVERYONE), network(held), atol=1e-5)
    assert torch.equal(blind(EVERYONE), blind(held))
    assert not torch.allclose(network(EVERYONE), network(held), atol=1e-2)


def test_nothing_of_held_out_rows_is_learned() -> None:
    data = table()
    ours, theirs = made(data), made(with_other_held_out_rows(data))
    assert len(ours) == 6
    for name, network in ours.items():
        assert same_weights(network, theirs[name]), name


def test_the_seed_decides() -> None:
    data = table()
    one, again, other = made(data), made(data), made(data, seed=1)
    for name, network in one.items():
        assert same_weights(network, again[name]), name
        assert same_weights(network, other[name]) == (name == "average"), name  # which is not trained


def test_repeats_are_the_single_runs_of_their_seeds() -> None:
    data = table()
    first, second = workshop_of(data, repeats=2).pairing(0.3).networks
    assert not same_weights(first, second)
    assert same_weights(first, workshop_of(data).pairing(0.3).networks[0])


def test_batches_hold_each_row_to_fit_once_and_no_other() -> None:
    """The first attribute is the row's own number, so it is seen which rows come."""
    data = table(120)
    codes = data.codes.copy()
    codes[:, 0] = np.arange(120)
    data = Dataset(schema_of([(0, 119), (0, 5), (0, 5), (1, 4)]), codes, data.labels, data.train)
    material = Material(data, TableSpace(data.schema, ["a1"]), WIDTHS, Recipe(epochs=2))
    fitted, looked_at = list[int](), list[int]()

    class Spy(CrossEntropy):
        def loss(self, network: Scaled, x: Tensor, y: Tensor, done: float, draws: torch.Generator) -> Tensor:
            (fitted if network.training else looked_at).extend(x[:, 0].int().tolist())
            assert torch.equal(y, torch.tensor(data.labels[x[:, 0].int()]))
            return super().loss(network, x, y, done, draws)

    fit(material, Spy())
    to_fit, validation = material.split
    assert sorted(fitted) == sorted([*to_fit, *to_fit])
    assert sorted(looked_at) == sorted([*validation, *validation])
    assert sorted([*to_fit, *validation]) == np.flatnonzero(data.train).tolist()
    assert len(validation) == 10  # a tenth of 96


def test_proved_means_that_brute_force_finds_no_witness() -> None:
    data = table()
    shop = workshop_of(data, original=trained(data))
    judge = Judge(data, shop.material.space, shop.material.split[1], np.zeros((0, 4), dtype=np.int32), half_width=0.02)
    proved_somewhere = 0
    for repair in (shop.retrained(), shop.certified(1.0), shop.pairing(3.0), shop.blind()):
        network = repair.networks[0]
        assert isinstance(network, FeedForward)
        low, high = EVERYONE.clone(), EVERYONE.clone()
        low[:, 0], high[:, 0] = 0, 2
        proved = (certified_labels(network, low, high) != NO_LABEL).numpy()
        witness = np.array([has_witness(network, data.schema, [0], row) for row in DOMAIN])
        assert not (proved & witness).any(), repair.name
        number = {tuple(row): position for position, row in enumerate(DOMAIN.tolist())}
        rows = [number[tuple(row)] for row in data.clipped[~data.train].tolist()]
        verdict = judge.verdict(Classifier(network))
        assert verdict.certified is not None
        assert verdict.certified.discriminatory == proved[rows].sum()
        assert verdict.people is not None
        assert verdict.people.discriminatory == witness[rows].sum()
        low_end, high_end = verdict.uniform.interval
        assert low_end <= witness.mean() <= high_end, repair.name
        proved_somewhere += int(proved.sum())
    assert proved_somewhere > len(DOMAIN)
    assert proved[rows].all()  # of the last one, which is blind
    assert not witness.any()


def test_bounds_say_nothing_of_a_network_with_a_single_score() -> None:
    """It labels by the sign of that score, so bounds between classes, of which it has one, would prove anything."""
    data, network = table(), network_of(4, 1, seed=5)
    shop = workshop_of(data, original=network)
    judge = Judge(data, shop.material.space, shop.material.split[1], np.zeros((0, 4), dtype=np.int32), half_width=0.03)
    verdict = judge.verdict(Classifier(network))
    assert verdict.people is not None
    assert verdict.people.discriminatory > 0
    assert verdict.certified is None
    assert not shop.retrainable
    assert workshop_of(data).retrainable


def dead(network: FeedForward) -> FeedForward:
    """Its first layer says nothing, and no gradient can change that."""
    with torch.no_grad():
        layer = network.hidden[0]
        assert isinstance(layer, nn.Linear)
        layer.bias.fill_(-1e4)
    return network


@pytest.mark.parametrize("deaths", [0, 2, 100])
def test_a_network_that_says_one_label_is_begun_again(deaths: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data, seeds, fresh = table(), list[int](), table_training._fresh

    def dying(material: Material, rows: np.ndarray[tuple[int], np.dtype[np.int64]], seed: int) -> Scaled:
        seeds.append(seed)
        scaled = fresh(material, rows, seed)
        if len(seeds) <= deaths:
            dead(scaled.network)
        return scaled

    monkeypatch.setattr(table_training, "_fresh", dying)
    network = fit(material_of(data), CrossEntropy(), seed=3)
    starts = min(deaths + 1, table_training.STARTS)
    assert seeds == [3 + start * table_training.OTHER_START for start in range(starts)]
    assert len(network(EVERYONE).argmax(1).unique()) == (1 if deaths == 100 else 2)


def test_one_label_is_right_where_the_data_has_one() -> None:
    data = table()
    one = replace(data, labels=np.ones_like(data.labels))
    assert (fit(material_of(one), CrossEntropy())(EVERYONE).argmax(1) == 1).all()


def test_votes_of_models_are_counted_over_both_members() -> None:
    """Of a pair with a0 = 0 and a0 = 2 some judges tell the members apart, others give one label to all."""
    zero, one, apart = linear([0.0] * 4, -1), linear([0.0] * 4, 1), linear([1.0, 0, 0, 0], -1)
    x = torch.tensor([[0.0, 1, 1, 1]])
    pair = torch.tensor([[2.0, 1, 1, 1]])
    for judges, label in (([one], 1), ([zero], 0), ([apart], 0), ([apart, one], 1), ([apart, zero, one], 0),
                          ([one, one, zero, apart], 1)):  # fmt: skip
        assert pair_votes([Classifier(judge) for judge in judges], x, pair).tolist() == [label]
        assert pair_votes([Classifier(judge) for judge in judges], pair, x).tolist() == [label]


def test_own_votes_are_those_of_most_variants() -> None:
    material = material_of(table())
    network = network_of(4, 2, seed=5)
    labels = own_votes(material.space, Classifier(network), EVERYONE)
    for row, label in zip(DOMAIN, labels.tolist(), strict=True):
        votes = network(torch.tensor(all_variants(table_schema(), [0], row)).float()).argmax(1).tolist()
        assert label == int(sum(votes) >= 2)
    assert any(has_witness(network, table_schema(), [0], row) for row in DOMAIN)  # so that there is a vote at all
    assert len(set(labels.tolist())) == 2


@pytest.mark.parametrize("vote", ["models", "own"])
@pytest.mark.parametrize(("share", "used"), [(0.001, 1), (0.3, 6), (1.0, 20)])
def test_augment_adds_both_members_under_one_label(
    vote: Vote, share: float, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, added = table(), list[tuple[Tensor, Tensor]]()

    def spy(
        material: Material, objective: object, *, seed: int, extra: tuple[Tensor, Tensor], on_epoch: object
    ) -> nn.Module:
        added.append(extra)
        return nn.Identity()

    monkeypatch.setattr(table_repairs, "fit", spy)
    samples = np.array([[0, a, b, 2] for a, b in itertools.product(range(5), range(4))], dtype=np.int32)
    original, judges = network_of(4, 2, seed=5), [network_of(4, 2, seed=seed) for seed in (1, 2, 3)]
    shop = workshop_of(data, repeats=2, original=original)
    repaired = shop.augment(findings_of(samples, [2] * 20), share, vote, list(judges))
    assert repaired.used == used
    assert repaired.settings == {"share": share, "vote": vote}
    for x, y in added:
        sample, witness = x[:used], x[used:]
        assert len(np.unique(sample, axis=0)) == used
        assert set(map(tuple, sample.int().tolist())) <= set(map(tuple, samples.tolist()))
        assert torch.equal(witness[:, 1:], sample[:, 1:])
        assert (witness[:, 0] == 2).all()
        assert torch.equal(y[:used], y[used:])
        for one, other, label in zip(sample, witness, y.tolist(), strict=False):
            variants = [one, other] if vote == "models" else [one, torch.cat([torch.ones(1), one[1:]]), other]
            voters = judges if vote == "models" else [original]
            votes = [int(voter(variant).argmax()) for voter in voters for variant in variants]
            assert label == int(sum(votes) > len(votes) / 2)
    assert len(added) == 2
    if used == 6:  # each repeat draws its own
        assert set(map(tuple, added[0][0].tolist())) != set(map(tuple, added[1][0].tolist()))


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, float("nan")])
def test_a_share_outside_of_zero_to_one(share: float) -> None:
    with pytest.raises(EvenhandError, match="share of findings"):
        workshop_of(table()).augment(findings_of(DOMAIN[:5], [1] * 5), share, "own", [])


def test_no_findings_to_learn_from() -> None:
    with pytest.raises(EvenhandError, match="nothing is changed"):
        workshop_of(table()).augment(findings_of(DOMAIN[:0], []), 0.05, "own", [])


def test_the_average_is_weighted_by_training_people() -> None:
    data = table()
    average = workshop_of(data).average().networks[0]
    values = data.clipped[data.train, 0]
    expected = torch.tensor([(values == value).mean() for value in range(3)], dtype=torch.float32)
    assert torch.allclose(average.get_buffer("weights"), expected)


def test_of_labels_with_as_many_votes_the_higher_mean_score_counts() -> None:
    """Two votes each way, but those for 1 are surer; one more vote for 0 outweighs any score."""
    scores = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.1, 0.9], [0.55, 0.45]])
    labels = scores.argmax(dim=1)
    assert most_votes(labels[None, :4], scores[None, :4]).tolist() == [1]
    assert most_votes(labels[None], scores[None]).tolist() == [0]
