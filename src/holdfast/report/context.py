"""What sections of a page are given and give, and how one says what it is made of."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.report.formatting import eps
from holdfast.report.images import ImageFiles, PageImages
from holdfast.report.public import public_text, report_command, spec
from holdfast.run_files import block, data_block
from holdfast.run_folder import RunFiles

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.attacks import Budget
    from holdfast.audit.subject import Subject
    from holdfast.data import ImageStore, ImageTable
    from holdfast.models import Embedder
    from holdfast.report.model import AttackedQueries, Searches

GOAL = "misrank"
"""Of the attack that the sections show."""
NO_GRADIENTS = "this model gives no gradients, and adversarial images need them"
NO_POSITIVE = "no query has a positive in the gallery"
UNSEEN = ("skip_bad",)
"""Settings of a dataset that do not choose its images."""


class Absent(Exception):
    """There is nothing to collect or to show; the message says why, and a page prints it in place of the section.

    Args:
        why: one sentence.
        command: what adds it, if anything does.
    """

    def __init__(self, why: str, command: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.command = command


@dataclasses.dataclass(frozen=True)
class CollectContext:
    """Where a section looks when exhibits are collected: a model, its images, their embeddings and one attack.

    Args:
        table: all images, of every split.
        split: the part that is embedded.
        store: its images; with a gallery, the queries.
        embedder: the model, frozen.
        images: writes them, or not.
        seed: of every choice.
        budget: of the attack.
        audited: the subject of the attacks, or why there is none.
    """

    table: ImageTable
    split: str
    store: ImageStore
    embedder: Embedder
    images: ImageFiles
    seed: int
    budget: Budget
    audited: Subject | str

    @property
    def subject(self) -> Subject:
        """Embeddings and gallery; `Absent` where nothing can be searched."""
        if isinstance(self.audited, str):
            raise Absent(self.audited)
        return self.audited

    @property
    def searched(self) -> ImageStore:
        """The images of the gallery."""
        return self.subject.gallery or self.subject.store

    @functools.cached_property
    def searches(self) -> Searches:
        """What every query finds before any attack, looked up once; `Absent` where none has anything to find."""
        from holdfast.report.model import search_all

        return search_all(self.subject)

    @functools.cached_property
    def attacked(self) -> AttackedQueries:
        """The attacked queries, attacked once; `Absent` where the model gives no gradients."""
        from holdfast.report.model import attack_queries

        self.require_gradients()
        return attack_queries(self.subject, self.budget)

    def require_gradients(self) -> None:
        """Refuse a model that gives none."""
        if not self.subject.differentiable:
            raise Absent(NO_GRADIENTS)

    def name_of(self, label: int | Tensor) -> str:
        """The name of a class."""
        return self.table.class_names[int(label)]


@dataclasses.dataclass(frozen=True)
class PageContext:
    """Where a section looks when a page is made: files alone.

    Args:
        files: of the run.
        images: those among them that the page shows.
    """

    files: RunFiles
    images: PageImages

    def exhibit(self, name: str) -> Any:
        """What was collected under a name, or why it is not there."""
        exhibits = self.files.exhibits
        if exhibits.get(name):
            return exhibits[name]
        if not exhibits:
            raise Absent("not collected yet", report_command(self.files))
        if name not in exhibits:
            raise Absent("not collected by the version that made this page's images", report_command(self.files))
        raise Absent(public_text(block(exhibits, "missing").get(name) or "nothing was found to show"))

    @property
    def other_data(self) -> tuple[str, str] | None:
        """The data of the exhibits and that of the figures, where they are not the same; else None."""
        files, made = self.files, block(self.files.exhibits, "made")
        if not made.get("data"):
            return None
        measured = next((d for d in (files.evaluation, files.main_audit) if d.get("data")), {"data": files.data})
        shown, own = data_block(made), data_block(measured)
        splits, contents = ([document.get(key) for document in (made, measured)] for key in ("split", "content"))
        if all(contents):
            alike = contents[0] == contents[1]
        else:  # of before they had one: places and settings must do
            same = all(shown[key] == own[key] for key in shown.keys() & own.keys() if key not in UNSEEN)
            alike = same and (None in splits or splits[0] == splits[1])
        if alike:
            return None
        names = [f"{spec(d)}, {s} split" if s else spec(d) for d, s in zip((shown, own), splits, strict=True)]
        return names[0], names[1]

    @property
    def strength(self) -> str:
        """The eps of the attack that the exhibits show, in words."""
        return eps(block(block(self.files.exhibits, "made"), "attack").get("eps_pixel"))


@dataclasses.dataclass(frozen=True)
class Section:
    """One section of a run's page, as its file declares it.

    Args:
        key: of its template (`section_KEY.html`) and its place in the page.
        name: in the contents.
        show: from files to what the template shows; its `title` is the finding.
        collect: what it needs of the model: key of `exhibits.json` → from the model to plain data. Only these may
            import torch, inside.
        of_images: made of the images that `holdfast report --data` may choose.
        optional: its absence is normal and not worth a line.
    """

    key: str
    name: str
    show: Callable[[PageContext], dict[str, Any]]
    collect: Mapping[str, Callable[[CollectContext], Any]] = dataclasses.field(default_factory=dict)
    of_images: bool = False
    optional: bool = False
