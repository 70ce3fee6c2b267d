"""The command that runs a study, with all that it must be given."""

from __future__ import annotations

from holdfast_studies.base import Study
from holdfast_studies.jobs import EMBEDDED, Job, Scale, Training


def invocation(study: Study, scale: Scale) -> str:
    """`holdfast study A1 --scale paper --place cub=DIR --weights resnet50=FILE`.

    It names every dataset that must be placed and every backbone whose weights would be fetched: a command that names
    weights no arm begins with is refused.
    """
    jobs = [arm.job for arm in study.arms(scale)]
    places = sorted({name for job in jobs for name in _datasets(job)} - set(EMBEDDED))
    weights = sorted({job.fetched for job in jobs if job.fetched})
    words = ["holdfast study", study.id, "--scale", scale]
    words += ["--place", *(f"{name}=DIR" for name in places)] if places else []
    words += ["--weights", *(f"{name}=FILE" for name in weights)] if weights else []
    return " ".join(words)


def _datasets(job: Job) -> set[str]:
    """Those of a job and of what it starts from."""
    block = job.data if isinstance(job.data, dict) else {"name": job.data}
    own = {str(block["name"])} if job.data else set()
    return own | _datasets(job.start) if isinstance(job, Training) and job.start else own
