"""How long holdfast takes to start, against importing torch alone.

    python benchmarks/startup.py --json startup.json

Each row is a fresh interpreter, the rows in turn, medians of the repeats; `ratio` is over `import torch`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from timing import medians, write

CLI = "import sys; from holdfast.cli import main; sys.exit(main())"
COMMANDS = {
    "python": ["-c", ""],
    "import torch": ["-c", "import torch"],
    "import holdfast": ["-c", "import holdfast"],
    "holdfast --help": ["-c", CLI, "--help"],
    "holdfast list losses": ["-c", CLI, "list", "losses"],
}


def run(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    works: dict[str, Callable[[], object]] = {name: partial(run, command) for name, command in COMMANDS.items()}
    taken = medians(works, arguments.repeats)
    rows = [{"row": name, "seconds": s, "ratio": s / taken["import torch"]} for name, s in taken.items()]
    print(f"{'start-up':22} {'seconds':>8} {'× torch':>8}")
    for name, seconds in taken.items():
        print(f"{name:22} {seconds:8.2f} {seconds / taken['import torch']:8.2f}")
    write(rows, arguments.json)


if __name__ == "__main__":
    main()
