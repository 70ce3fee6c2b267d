"""What the protocols attack with unless told otherwise; the pages may not import the audit, which needs torch."""

from __future__ import annotations

from holdfast.report.sections.recipe import block
from holdfast.run_folder import RunFolder

USUAL_EPS = {
    "ers": ("eps_pixel", 8 / 255),
    "adml": ("eps_pixel", 0.0314),
    "stax": ("eps_normalized", 0.01),
    "thorough": ("eps_pixel", 16 / 255),
}
"""The radius of each protocol, in the units that its `--eps` takes; a test compares them with the audit's."""
USUAL_STEPS = 32
"""Of ERS."""
SMALL_PICTURES, SMALL_EPS = 28, 77 / 255
"""Pictures of this size are attacked with a larger radius in ERS."""
SMALL_DATA = ("mnist",)


def usual_eps(files: RunFolder) -> float:
    """The radius of ERS for pictures of the size of this run's, as far as its files tell the size."""
    data, model = files.data, block(files.recipe, "model")
    native = SMALL_PICTURES if data.get("name") in SMALL_DATA else data.get("size")
    size = model.get("canvas") or model.get("size") or native
    return SMALL_EPS if size == SMALL_PICTURES else USUAL_EPS["ers"][1]
