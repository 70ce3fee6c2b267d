"""The studies, by paper."""
