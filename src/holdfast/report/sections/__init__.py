"""The parts of a run's page, one file each: facts in, what the template shows out."""
