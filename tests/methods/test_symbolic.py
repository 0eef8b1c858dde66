"""SG's path, negations, solver and queue against worked examples; its findings by brute force."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.methods import path_solver
from evenhand.methods.explanation import (
    Constraint,
    average_confidence,
    global_negations,
    local_negations,
    neighbours,
    path_of,
    problem_of,
    unseen,
)
from evenhand.methods.path_solver import Problem, SolverLostError, Solvers, solve
from evenhand.methods.symbolic import BATCH, Candidate, Question, Queue, Rank, SymbolicGeneration, answers
from evenhand.models.network import FeedForward
from evenhand.search.draws import Draws
from evenhand.search.recorder import Findings
from evenhand.search.search import Limits, Search, SearchResult
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from tests.worlds.schemas import classifier_of, has_witness, schema_of

PATH = (
    Constraint(1, False, 3, 0.5),  # a1 > 3
    Constraint(0, True, 0, 0.2),  # a0 <= 0, protected
    Constraint(2, True, 5, 0.25),  # a2 <= 5
    Constraint(1, True, 7, 1.0),  # a1 <= 7
)


@pytest.fixture
def space() -> TableSpace:
    return TableSpace(schema_of([(0, 1), (0, 9), (-4, 9)]), ["a0"])


def test_the_path_of_a_small_tree() -> None:
    """Label 1 is "a1 above 2 and a0 at most 5"; the split halfway between codes becomes a bound of whole numbers."""
    samples = np.array([[0, 0], [1, 1], [4, 2], [9, 2], [9, 1], [3, 3], [5, 4], [5, 5], [6, 4], [8, 5]], np.float32)
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 1, 0, 0])
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(samples, labels)
    # At the root 3 of 10 have label 1; above 2 on a1 it is 3 of 5; of these with a0 at most 5 it is 3 of 3.
    assert path_of(tree, [4, 4], 1) == (Constraint(1, False, 2, 0.6), Constraint(0, True, 5, 1.0))
    assert path_of(tree, [7, 3], 0) == (Constraint(1, False, 2, 0.4), Constraint(0, False, 5, 1.0))
    assert path_of(tree, [7, 2], 0) == (Constraint(1, True, 2, 1.0),)
    alike = DecisionTreeClassifier().fit(samples, np.ones(10))
    assert path_of(alike, [4, 4], 1) == ()


def test_a_tie_between_code_and_threshold_goes_to_at_most() -> None:
    """Codes 2 and 4 are split at 3.0; the code 3 itself is at most that."""
    tree = DecisionTreeClassifier().fit(np.array([[2.0], [4.0]], np.float32), [0, 1])
    assert path_of(tree, [3], 0) == (Constraint(0, True, 3, 1.0),)
    assert path_of(tree, [4], 1) == (Constraint(0, False, 3, 1.0),)


def test_local_negations_turn_one_constraint_and_keep_the_others() -> None:
    assert local_negations(PATH, [0]) == [
        (PATH[1], PATH[2], PATH[3], Constraint(1, True, 3, 0.5)),
        (PATH[0], PATH[1], PATH[3], Constraint(2, False, 5, 0.75)),
        (PATH[0], PATH[1], PATH[2], Constraint(1, False, 7, 0.0)),
    ]


def test_global_negations_keep_what_comes_before() -> None:
    """The second, about a protected attribute, is passed over, though it is not sure enough either."""
    assert global_negations(PATH, [0], 0.25) == [
        (Constraint(1, True, 3, 0.5),),
        (PATH[0], Constraint(2, False, 5, 0.75)),
        (PATH[0], PATH[2], Constraint(1, False, 7, 0.0)),
    ]


def test_global_negations_end_at_the_first_that_is_not_sure_enough() -> None:
    """The third has 0.25: the fourth, sure as it is, is not reached."""
    assert global_negations(PATH, [0], 0.3) == [(Constraint(1, True, 3, 0.5),)]
    assert global_negations(PATH, [0], 0.6) == []


def test_the_average_confidence_decides_the_turn() -> None:
    """The confidence of the negated constraint is inverted first."""
    first, second, third = local_negations(PATH, [0])
    assert average_confidence(first) == pytest.approx((0.2 + 0.25 + 1 + 0.5) / 4)
    assert Rank.LOCAL.turn(second) == pytest.approx(1 + (0.5 + 0.2 + 1 + 0.75) / 4)
    assert Rank.LOCAL.turn(third) == pytest.approx(1 + (0.5 + 0.2 + 0.25 + 0) / 4)
    turns = [Rank.GLOBAL.turn(negated) for negated in global_negations(PATH, [0], 0.2)]
    assert turns == pytest.approx([10 - 0.5, 10 - (0.5 + 0.75) / 2, 10 - (0.5 + 0.25 + 0) / 3])
    # Whatever the average, a local sample comes before a seed, and a seed before a global one.
    unsure, sure = (Constraint(1, True, 3, 0.0),), (Constraint(1, True, 3, 1.0),)
    turns = [
        Rank.LOCAL.turn(unsure),
        Rank.LOCAL.turn(sure),
        Rank.SEED,
        Rank.GLOBAL.turn(sure),
        Rank.GLOBAL.turn(unsure),
    ]
    assert turns == [1, 2, 5, 9, 10]


def test_a_path_is_asked_about_once() -> None:
    seen: set[frozenset[Constraint]] = set()
    assert list(unseen([PATH, PATH[:2]], seen)) == [PATH, PATH[:2]]
    surer = tuple(constraint._replace(confidence=0.9) for constraint in reversed(PATH))
    assert list(unseen([surer, PATH[1:]], seen)) == [PATH[1:]]


def test_problems_of_the_two_steps(space: TableSpace) -> None:
    x = [0, 6, 2]
    turned = local_negations(PATH, [0])[0]
    assert problem_of(space, x, turned, {1}) == Problem([(1, 0, 9, 6)], [(1, True, 7), (1, True, 3)])
    prefix = global_negations(PATH, [0], 0.2)[2]
    expected = Problem([(1, 0, 9, 6), (2, -4, 9, 2)], [(1, False, 3), (2, True, 5), (1, False, 7)])
    assert problem_of(space, x, prefix, {1, 2}) == expected
    assert solve(expected) in ([8, 2], [9, 2])


def test_what_cannot_be_solved() -> None:
    assert solve(Problem([(1, 0, 9, 6)], [(1, True, 3), (1, False, 3)])) is None
    assert solve(Problem([(1, 0, 9, 6)], [(1, False, 9)])) is None  # beyond the domain
    assert solve(Problem([(1, 0, 9, 6)], [(1, False, 8)])) == [9]
    assert solve(Problem([(4, -3, 2, 2)], [(4, True, -3)])) == [-3]


bounds = st.integers(-4, 9)
problems = st.lists(st.tuples(bounds, bounds, bounds), min_size=1, max_size=4).flatmap(
    lambda ends: st.builds(
        Problem,
        st.just([(i, *sorted(end)[::2], sorted(end)[1]) for i, end in enumerate(ends)]),
        st.lists(st.tuples(st.integers(0, len(ends) - 1), st.booleans(), bounds), max_size=6),
    )
)


@settings(deadline=None, max_examples=150)
@given(problems)
def test_the_solver_against_enumeration(problem: Problem) -> None:
    """Each attribute alone: a value in the domain that meets its constraints exists, and is given, or does not."""

    def meets(attribute: int, value: int) -> bool:
        mine = [(at_most, bound) for which, at_most, bound in problem.constraints if which == attribute]
        return all(value <= bound if at_most else value > bound for at_most, bound in mine)

    allowed = [[v for v in range(low, high + 1) if meets(i, v)] for i, low, high, _ in problem.unknowns]
    solution = solve(problem)
    if all(allowed):
        assert solution is not None
        assert all(value in values for value, values in zip(solution, allowed, strict=True))
    else:
        assert solution is None


def test_workers_keep_the_order() -> None:
    asked = [Problem([(3, 0, 500, 0)], [(3, False, bound), (3, True, bound + 1)]) for bound in range(101)]
    asked[7] = Problem([(3, 0, 5, 0)], [(3, False, 5)])
    with Solvers(3) as solvers:
        solutions = solvers.solve(asked)
        assert solvers.solve([]) == []
        assert solvers.solve(asked[:1]) == [[1]]
    assert solutions == [None if bound == 7 else [bound + 1] for bound in range(101)]


def test_a_worker_that_is_gone_is_said() -> None:
    source = Candidate(5, 0, Rank.SEED, [0], 0)
    with Solvers(2) as solvers:
        lost = solvers._processes[1]
        assert lost.stdin is not None
        lost.stdin.write("no problem\n")
        lost.stdin.flush()
        with pytest.raises(EvenhandError, match=r"ended early\. .*--set workers=1") as caught:
            answers([Question(9, Rank.GLOBAL, source, Problem([(0, 0, 1, 0)], []))], solvers)
    assert isinstance(caught.value.__cause__, SolverLostError)


def test_a_worker_imports_nothing_heavy() -> None:
    code = (
        "import sys; from evenhand.methods.path_solver import Problem, solve; solve(Problem([(0, 0, 1, 0)], []));"
        "print([name for name in ('torch', 'numpy', 'sklearn', 'pandas') if name in sys.modules], 'z3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"


def test_neighbours_keep_half_and_stay_in_the_domain(space: TableSpace) -> None:
    x = torch.tensor([[0.0, 9.0, -4.0], [1.0, 0.0, 9.0]])
    around = neighbours(space, x, 3000, Draws(0, 0, torch.arange(6000), per_step=3, block_steps=1))
    assert around.shape == (2, 3000, 3)
    assert torch.equal(space.clip(around), around)
    assert torch.equal(around, around.round())
    kept = (around == x[:, None]).double().mean(dim=1)  # half, and those that are drawn anew by chance
    assert kept.flatten().tolist() == pytest.approx([0.75, 0.55, 0.5 + 0.5 / 14] * 2, abs=0.04)


def test_the_order_of_the_queue(space: TableSpace) -> None:
    """Local ones by their turn, then seeds in their order, then global ones by their turn; each sample once."""
    seeds = torch.tensor([[0.0, 5.0, 5.0], [1.0, 5.0, 5.0], [0.0, 1.0, 1.0]])
    queue = Queue(space, seeds, torch.tensor([30, 10, 20]))
    queue.push(
        [
            Candidate(9.6, 0, Rank.GLOBAL, [0, 2, 2], 30),
            Candidate(9.1, 0, Rank.GLOBAL, [0, 3, 3], 30),
            Candidate(1.5, 0, Rank.LOCAL, [0, 4, 4], 10),
            Candidate(1.2, 0, Rank.LOCAL, [1, 1, 1], 10),  # a seed, protected value aside
        ]
    )
    queue.push([Candidate(1.2, 0, Rank.LOCAL, [0, 6, 6], 20), Candidate(1.2, 0, Rank.LOCAL, [1, 2, 2], 20)])
    queue.push([Candidate(9.1, 0, Rank.GLOBAL, [0, 7, 7], 20)])
    queue.push([])
    first = queue.pop(4, 99)
    assert [(candidate.x, candidate.seed) for candidate in first] == [
        ([0, 6, 6], 20),
        ([0, 4, 4], 10),
        ([0, 5, 5], 30),
        ([1, 5, 5], 10),
    ]
    queue.push([Candidate(1.9, 0, Rank.LOCAL, [0, 4, 4], 20), Candidate(1.9, 0, Rank.LOCAL, [0, 8, 8], 20)])
    assert [candidate.x for candidate in queue.pop(99, 99)] == [[0, 8, 8], [0, 1, 1], [0, 3, 3], [0, 7, 7], [0, 2, 2]]
    assert (queue.pop(1, 99), queue.popped, queue.popped_beyond_seeds) == ([], 9, 6)


def test_seeds_do_not_count_as_beyond_seeds(space: TableSpace) -> None:
    queue = Queue(space, torch.tensor([[0.0, 5.0, 5.0], [0.0, 1.0, 1.0]]), torch.tensor([0, 1]))
    queue.push([Candidate(9.5, 0, Rank.GLOBAL, [0, value, 2], 0) for value in range(4)])
    queue.push([Candidate(1.5, 0, Rank.LOCAL, [0, 8, 8], 0)])
    assert [candidate.x for candidate in queue.pop(99, 2)] == [[0, 8, 8], [0, 5, 5], [0, 1, 1], [0, 0, 2]]
    assert queue.pop(99, 2) == []


def test_only_findings_are_searched_locally(space: TableSpace) -> None:
    source = Candidate(5, 0, Rank.SEED, [0, 6, 2], 17)
    path = PATH[:1] + PATH[2:]
    method = SymbolicGeneration(workers=1, confidence=0.2)
    asked = list(method.questions(space, source, False, path, set()))
    assert [question.rank for question in asked] == [Rank.GLOBAL] * 3
    assert [question.turn for question in asked] == pytest.approx([9.5, 9.375, 9.75])
    asked = list(method.questions(space, source, True, path, set()))
    # The last global question has the constraints of the last local one, so it is not asked again.
    assert [question.rank for question in asked] == [Rank.LOCAL] * 3 + [Rank.GLOBAL] * 2
    assert [question.turn for question in asked][:3] == pytest.approx([1 + 1.75 / 3, 1.75, 1.25])
    asked = list(SymbolicGeneration(workers=1, local=False).questions(space, source, True, path, set()))
    assert [question.rank for question in asked] == [Rank.GLOBAL]


class Ran:
    """SG on the census network, without gradients."""

    def __init__(
        self,
        data: Dataset,
        network: FeedForward,
        monkeypatch: pytest.MonkeyPatch,
        *,
        seeds: int = 40,
        limits: Limits | None = None,
        chunk_rows: int | None = None,
        protected: str = "age",
        **options: Any,
    ) -> None:
        self.parts: list[Findings] = []
        self.model = classifier_of(network, chunk_rows)
        monkeypatch.setattr(self.model, "gradients", None)
        self.space = TableSpace(data.schema, [protected])
        rows = choose_seeds(data, seeds, seed=0)
        method = SymbolicGeneration(neighbours=60, **options)
        limits = limits or Limits(steps=4)
        search = Search(self.model, self.space, method, seed=5, limits=limits, sink=self.parts.append)
        self.result: SearchResult = search.run(data.codes[rows], rows)

    def as_rows(self) -> list[tuple[Any, ...]]:
        names = ("phase", "seed", "step", "label", "sample", "witness")
        columns = [np.concatenate([getattr(part, name) for part in self.parts]).tolist() for name in names]
        return list(zip(*columns, strict=True))


def test_findings_are_true(census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(census, census_network, monkeypatch, workers=1)
    found = ran.as_rows()
    counts = ran.result.counts
    assert counts.tried == 40 * 5
    assert len(found) == counts.all_findings > 40
    assert min(counts.findings.values()) > 0
    samples = np.array([row[4] for row in found], dtype=np.int32)
    assert (samples >= census.schema.lower).all()
    assert (samples <= census.schema.upper).all()
    assert all(has_witness(census_network, census.schema, ran.space.protected, sample) for sample in samples)
    assert {row[1] for row in found} <= set(choose_seeds(census, 40, seed=0).tolist())


def test_the_global_step_alone(census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many samples beyond the seeds as are asked for, more than a batch of them; local ones are not among them."""
    ran = Ran(census, census_network, monkeypatch, workers=1, local=False, samples=BATCH + 6, limits=Limits(steps=0))
    assert ran.result.counts.tried == 40 + BATCH + 6
    assert ran.result.counts.generated["local"] == 0
    assert ran.result.notes["generated_beyond_seeds"] == BATCH + 6
    beyond = [row for row in ran.as_rows() if row[2] > 0]  # the 40 seeds are the first batch
    assert ran.result.notes["findings_beyond_seeds"] == len(beyond) > 0


@pytest.mark.parametrize(("workers", "chunk_rows"), [(2, None), (1, 77), (2, 1000)])
def test_workers_and_chunks_change_nothing(
    census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch, workers: int, chunk_rows: int | None
) -> None:
    one = Ran(census, census_network, monkeypatch, workers=1)
    other = Ran(census, census_network, monkeypatch, workers=workers, chunk_rows=chunk_rows)
    assert one.as_rows() == other.as_rows()
    assert one.model.rows == other.model.rows


def test_limits_are_kept(census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Ran(census, census_network, monkeypatch, workers=2, limits=Limits(max_rows=5000))
    assert rows.result.stopped == "max-rows"
    assert 0 < rows.model.rows <= 5000
    few = Ran(census, census_network, monkeypatch, workers=1, limits=Limits(max_findings=12))
    assert (few.result.stopped, len(few.as_rows())) == ("max-findings", 12)
    alone = Ran(census, census_network, monkeypatch, workers=1, limits=Limits(steps=0))
    assert alone.result.counts.tried == 40


def test_a_small_domain_is_searched_to_its_end() -> None:
    """Where no path is new the queue runs empty, long before the budget ends."""
    schema = schema_of([(0, 1), (0, 2), (0, 2)])
    torch.manual_seed(0)
    model = classifier_of(torch.nn.Linear(3, 2))
    space = TableSpace(schema, ["a0"])
    method = SymbolicGeneration(workers=1, neighbours=30)
    search = Search(model, space, method, seed=0, limits=Limits(steps=10**6), sink=lambda findings: None)
    result = search.run(np.zeros((1, 3), dtype=np.int32), np.array([0]))
    assert result.stopped == "completed"
    assert 1 <= result.counts.tried <= 9


def test_without_z3_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(EvenhandError) as caught:
        SymbolicGeneration()
    assert str(caught.value) == "SG needs z3: pip install 'evenhand[symbolic]'"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("neighbours", 0), ("workers", 0), ("workers", None), ("depth", -1), ("depth", 2.5), ("samples", 0)],
)
def test_settings_are_checked(setting: str, value: Any) -> None:
    with pytest.raises(EvenhandError, match=f"{setting} of SG is a whole number of at least 1; {value} is not"):
        SymbolicGeneration(**{setting: value})


def test_local_is_yes_or_no() -> None:
    with pytest.raises(EvenhandError, match="local of SG is 1"):
        SymbolicGeneration(local="false")  # type: ignore[arg-type]


def test_confidence_is_a_share() -> None:
    with pytest.raises(EvenhandError, match="confidence is a share"):
        SymbolicGeneration(confidence=1.5)


def test_a_solver_that_gives_up_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_solver, "RESOURCES", 1)
    assert solve(Problem([(1, 0, 9, 6), (2, 0, 9, 3)], [(1, True, 3), (2, False, 4)])) is None
