"""Measurements of studies that are neither a metric nor an audit."""
