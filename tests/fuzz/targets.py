"""All fuzz targets."""

from __future__ import annotations

import target_benchmarks
import target_csv
import target_folders
import target_images
import target_models
import target_packages
import target_recipes
import target_resumed
import target_runs
from fuzzing import Target

TARGETS: tuple[Target, ...] = (
    *target_recipes.TARGETS,
    *target_csv.TARGETS,
    *target_benchmarks.TARGETS,
    *target_folders.TARGETS,
    *target_images.TARGETS,
    *target_packages.TARGETS,
    *target_models.TARGETS,
    *target_runs.TARGETS,
    *target_resumed.TARGETS,
)
