"""What pyproject.toml cannot say with every setuptools: the C file, without which all works, more slowly."""

from setuptools import Extension, setup

RESAMPLE = Extension(
    "holdfast.data._resample", ["src/holdfast/data/_resample.c"], optional=True, extra_compile_args=["-O3"]
)

setup(ext_modules=[RESAMPLE])
