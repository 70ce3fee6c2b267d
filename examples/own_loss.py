"""A loss of your own in one class, trained by name beside one that is there already.

python examples/own_loss.py             about half a minute on two CPU cores
python examples/own_loss.py --fast      a few seconds; the figures mean little
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torch import Tensor

import holdfast
from holdfast.losses import Mask, Miner, PairLoss, Part, Unreduced, register


@register("square-band")
class SquareBand(PairLoss):
    """Pull positives above one similarity and push negatives below another, both squared.

    L = mean_P relu(high - s)² + mean_N relu(s - low)²

    Args:
        high: similarity that positives should reach.
        low: similarity that negatives should stay under.
        miner: chooses the pairs; all of them when left out.
        part: gradients flow only through pairs of this kind.
    """

    def __init__(
        self, high: float = 0.9, low: float = 0.3, *, miner: Miner | str | None = None, part: Part = "both"
    ) -> None:
        super().__init__(miner, part)
        self.high, self.low = high, low

    def pairs(self, s: Tensor, pos: Mask, neg: Mask) -> list[Unreduced]:
        """The losses of both kinds of pairs; a mask says which of them exist."""
        pull, push = (self.high - s).relu().square(), (s - self.low).relu().square()
        return [Unreduced(pull, pos), Unreduced(push, neg)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/own-loss"), help="folder for the runs")
    parser.add_argument("--fast", action="store_true", help="few characters, two epochs")
    options = parser.parse_args()
    data = {"name": "glyphs", "characters": 60 if options.fast else 200, "per_class": 8}
    settings = ["batch.classes=14", f"epochs={2 if options.fast else 16}"]

    for loss in ("square-band", "multi-similarity"):
        recipe = {"base": "pocket", "loss": {"name": loss, "miner": "multi-similarity"}}
        run = holdfast.train(recipe, data, out=options.out / loss, settings=settings)
        print(f"{loss:16} R@1 {run.evaluation['metrics']['R@1']:.1f}")


if __name__ == "__main__":
    main()
