"""The HTML pages: files of runs in, one self-contained file out."""
