"""What is audited: a model, the images it is asked about, and the gallery it searches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from holdfast import seeds
from holdfast.attacks import Attacked, BoundGoal, Budget, Goal, References, pgd, square
from holdfast.attacks.forward import Precision, count_pass
from holdfast.attacks.goals.composed import Stacked
from holdfast.attacks.pgd import Options
from holdfast.audit.cut import Cut
from holdfast.audit.plan import Passes
from holdfast.audit.sampling import balanced_rows
from holdfast.config import instantiate
from holdfast.data import ImageStore, content_digest
from holdfast.models import Embedder
from holdfast.models.embedder import Through
from holdfast.processes import current_processes
from holdfast.sphere import precise

SQUARE_QUERIES = 500
FILLED = 256
"""Images of a pass on a GPU up to which attacks of few images are put together."""
HURRY = 4
"""A first look takes so many times fewer steps and queries, but five steps at least."""


class Accompanied(nn.Module):
    """A model that may want batch statistics, and then refuses an image that comes alone: that one comes twice.

    Args:
        model: maps images to vectors.
    """

    def __init__(self, model: Embedder | Through) -> None:
        super().__init__()
        self.model = model
        self.size, self.dim, self.mean = model.size, model.dim, model.mean
        self.training = model.training  # a new module starts in training mode and would put the model there too

    def forward(self, images: Tensor) -> Tensor:
        """As the model's, for one image or more."""
        vectors: Tensor = self.model(images.repeat(2, 1, 1, 1) if len(images) == 1 else images)
        return vectors[: len(images)]


class Expectation(Accompanied):
    """The mean of several passes through a randomised model: what an attacker who can average would attack.

    Args:
        model: maps images to vectors, differently each time.
        passes: how many to average.
    """

    def __init__(self, model: Embedder | Through, passes: int = 8) -> None:
        super().__init__(model)
        self.passes = passes

    def forward(self, images: Tensor) -> Tensor:
        """The mean direction."""
        vectors = [F.normalize(precise(super(Expectation, self).forward(images)), dim=1) for _ in range(self.passes)]
        return F.normalize(torch.stack(vectors).mean(0), dim=1)


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model under audit.

    Args:
        model: maps images in [0, 1] to vectors.
        store: the images that may be attacked.
        size: input size of the model.
        std: pixel deviation the model divides by, for budgets in normalised units.
        labels: class of each image of the store.
        references: clean embeddings of the gallery and, where they are not in it, of the queries.
        rows: which images of the store are attacked.
        seed: of everything random.
        differentiable: False for models that give no gradients; they are attacked by random search.
        gallery: the images that are searched, where they are not those of the store.
        chunk: images per pass, to bound memory.
        block: images that are attacked and stored together; what a killed audit loses.
        precision: of crafting; what is measured afterwards is always in float32.
        run: another way to call the model, such as its compiled form, for the passes that craft.
        digest: identifies images and labels on both sides.
        sets: the same subject with everything seen through one auxiliary BatchNorm set, by the set's name.
        quick: a first look, with fewer steps and queries.
    """

    model: nn.Module
    store: ImageStore
    size: int
    std: Tensor
    labels: Tensor
    references: References
    rows: Tensor
    seed: int
    differentiable: bool = True
    gallery: ImageStore | None = None
    chunk: int | None = None
    block: int = 128
    precision: Precision = "float32"
    run: Callable[[Tensor], Tensor] | None = None
    digest: str = ""
    sets: Mapping[str, Subject] = dataclasses.field(default_factory=dict)
    quick: bool = False

    def images(self, rows: Tensor) -> Tensor:
        """Images of some rows, as the model takes them."""
        return self.store.inputs(rows.cpu())

    def content(self) -> str:
        """Digest of the images and their classes, on both sides; equal for a copy of them elsewhere."""
        return content_digest([each.table for each in (self.store, self.gallery) if each is not None])

    def generator(self, *purpose: str | int) -> Generator:
        """A generator for one purpose of the audit; on the CPU, so that targets do not depend on the device."""
        return seeds.generator(self.seed, *purpose)

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """Unit vectors of images."""
        vectors = F.normalize(precise(self.model(images)), dim=1)
        count_pass(images)
        return vectors

    def limited(self, limit: int | None) -> Subject:
        """The same subject with a seeded, class-balanced subset of its images attacked; all when left out."""
        rows = balanced_rows(self.labels, limit, self.seed).to(self.rows.device)
        sets = {name: dataclasses.replace(view, rows=rows) for name, view in self.sets.items()}
        return dataclasses.replace(self, rows=rows, sets=sets)

    def full_passes(self) -> Cut | None:
        """Blocks for attacks that draw nothing, which a GPU attacks in passes as large as it can; None elsewhere."""
        if self.rows.device.type != "cuda" or self.chunk is None or not self.differentiable:
            return None
        each = -(-len(self.rows) // current_processes().world)
        return Cut.every(max(self.block, min(self.chunk, each)), len(self.rows))

    @property
    def filled(self) -> int:
        """Images that a pass may as well have as fewer: one on a CPU, which gains nothing by more."""
        return min(FILLED, self.chunk or FILLED) if self.rows.device.type == "cuda" else 1

    @property
    def queries(self) -> int:
        """Of a random search."""
        return max(1, SQUARE_QUERIES // HURRY) if self.quick else SQUARE_QUERIES

    def paced(self, budget: Budget) -> Budget:
        """A budget as it is, or with the fewer steps of a first look, long enough to cross the ball together."""
        if not self.quick:
            return budget
        steps = min(budget.steps, max(5, budget.steps // HURRY))
        step = None if budget.step is None else max(budget.step, budget.eps / steps)
        return dataclasses.replace(budget, steps=steps, step=step)

    def passes(self, budget: Budget) -> Passes:
        """What an attack on one image takes at most; one that reaches its goal may end early."""
        if not self.differentiable:
            return self.search_passes
        return Passes(forward=2 if budget.method == "apgd" else 1, back=budget.steps)

    @property
    def search_passes(self) -> Passes:
        """What a random search takes for one image: the image itself, its queries, and what came of them."""
        return Passes(forward=self.queries + 2)

    def attack(self, images: Tensor, goal: BoundGoal, budget: Budget, generator: Generator | None = None) -> Attacked:
        """Attack by gradient where the model gives one, by random search where it does not."""
        if not self.differentiable:
            return self.search(images, goal, budget, generator)
        # A batch that moves together is one group, which cannot be cut.
        chunk = None if goal.group is None or self.chunk is None else max(1, self.chunk // goal.group)
        options: Options = {"generator": generator, "chunk": chunk, "precision": self.precision, "run": self.run}
        return pgd(self.model, images, goal, budget, **options)

    def attack_together(
        self, images: Tensor, goals: Sequence[BoundGoal], budget: Budget, generator: Generator | None = None
    ) -> list[Attacked]:
        """What attacks of several goals on the same images come to, which go through the model in the same passes."""
        if len(goals) == 1:  # which may be cut
            return [self.attack(images, goals[0], budget, generator)]
        stacked = Stacked(goals, len(images))
        return stacked.parted(self.attack(images.repeat(len(goals), 1, 1, 1), stacked, budget, generator))

    def attack_on(
        self,
        name: str,
        goal: str | dict[str, object],
        budget: Budget,
        kept: Callable[[Attacked], dict[str, Tensor]] = lambda found: {"vectors": found.vectors},
        draws: str = "start",
        asks: bool = True,
        shared: SharedPasses | None = None,
    ) -> Callable[[slice], dict[str, Tensor]]:
        """A part's attack: each image by itself against the whole clean gallery, with targets drawn for all at once.

        What is measured holds, as `hit`, whether the image still finds its class first.

        Args:
            name: of the part; its random draws are its own.
            goal: what the attacker wants, as a recipe writes it.
            budget: in pixel units.
            kept: what is measured of attacked images; their vectors when left out.
            draws: name of the attack's own draws, which begin anew with each block.
            asks: the attacked image is the query; where it is a candidate, it finds nothing.
            shared: passes that attacks of the same budget, which draw nothing, may go through together.
        """
        built: Goal = instantiate(Goal, goal)
        bound = built.bind(self.references, self.rows, self.generator("targets", name))
        if shared is not None:
            shared.add(name, bound)

        def attack(block: slice) -> dict[str, Tensor]:
            rows, generator = self.rows[block], self.generator(draws, name, block.start)
            found = shared.attack(self, name, block, budget) if shared is not None else None
            found = found or self.attack(self.images(rows), bound.take(block), budget, generator)
            return kept(found) | ({"hit": self.references.hits(found.vectors, rows)} if asks else {})

        return attack

    def search(self, images: Tensor, goal: BoundGoal, budget: Budget, generator: Generator | None = None) -> Attacked:
        """Attack by random search."""
        return square(self.model, images, goal, budget, queries=self.queries, generator=generator, chunk=self.chunk)

    @property
    def shared_passes(self) -> SharedPasses | None:
        """Passes that attacks may share: on a GPU, whose passes so few images do not fill; None elsewhere."""
        few = self.chunk is not None and 2 * len(self.rows) <= self.chunk
        return SharedPasses() if few and self.differentiable and self.rows.device.type == "cuda" else None


class SharedPasses:
    """Attacks of several goals on the same images, as many in the same passes as these hold.

    They run when the first of them is asked for; the others are kept until they are.
    """

    def __init__(self) -> None:
        self._goals: dict[str, BoundGoal] = {}
        self._found: dict[tuple[str, int], Attacked] = {}

    def add(self, name: str, goal: BoundGoal) -> None:
        """Attack with a goal, too; one that needs full precision in its first step goes alone."""
        if not goal.stationary:
            self._goals[name] = goal

    def attack(self, subject: Subject, name: str, block: slice, budget: Budget) -> Attacked | None:
        """What the attack of a goal comes to; None where it goes alone."""
        if name not in self._goals:
            return None
        if (name, block.start) not in self._found:
            images = subject.images(subject.rows[block])
            number = max(1, (subject.chunk or len(images)) // len(images))
            names = list(self._goals)
            first = names.index(name) // number * number
            now = {each: self._goals[each].take(block) for each in names[first : first + number]}
            found = subject.attack_together(images, list(now.values()), budget)
            self._found |= {(each, block.start): one for each, one in zip(now, found, strict=True)}
        return self._found.pop((name, block.start))
