"""What a run shows of itself: arrays and pictures under `artifacts/`, from which pages are made."""
