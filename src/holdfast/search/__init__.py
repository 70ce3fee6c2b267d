"""Indexes of vectors: build, add to, search, calibrate."""
