"""Readers of datasets, one file each."""
