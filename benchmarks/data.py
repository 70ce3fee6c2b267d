"""From JPEG files to augmented batches on the device: images per second, ours against `torch` DataLoaders.

    python benchmarks/data.py --workers 2 --json data.json
    python benchmarks/data.py --workers 16 --images 4096 --device cuda --json data.json

Files are real photographs where a zip of some is given (`--photographs`), resized to `--side`; else smooth noise. The
peers decode with Pillow or with torchvision's own decoder, then torchvision's transforms (v2) crop, resize, mirror and
convert; persistent workers, pinned memory where there is a GPU. Ours has as many threads, or processes. All end with a
float32 batch on the device. Each row is measured in a process of its own: threads that one leaves behind slow others
down. Rows that cannot be run here (torchvision without its decoder) are left out.

- pillow, torchvision: the peers; - none: decoded at each use, two batches ahead; - disk: decoded once into a file, then
mapped; - memory: decoded once, then taken from memory; - fill: what that first decoding takes.

Before anything is timed, our pixels are compared with those of decoding, resizing to the canvas with Pillow, cropping
and resizing with torch; a difference above 1/255 stops the run. `cpu_ms` is processor time per image, all processes
together, which a busy machine blurs less than it does the clock; `main_ms` is that of the row's first process alone,
with its threads, which workers must wait for.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import torch
from PIL import Image
from timing import processor, seconds, write
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from holdfast.data import ImageStore, from_folder
from holdfast.data.augment import RandomResizedCrop
from holdfast.data.store import Cache
from holdfast.models.names import ensure_torchvision
from holdfast.view import View

BATCH = 64
CLASSES = 8
SCALE = (0.2, 1.0)
ROWS = ("pillow", "torchvision", "none", "disk", "memory", "fill")
AHEAD = 2


def make_folder(folder: Path, count: int, side: int, photographs: Path | None) -> None:
    """Photographs whose shorter side is `side`."""
    generator = np.random.default_rng(0)
    for number, image in enumerate(_pictures(count, side, photographs, generator)):
        path = folder / f"class{number % CLASSES}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        factor = side / min(image.size)
        size = round(image.width * factor), round(image.height * factor)
        image.resize(size, Image.Resampling.BICUBIC).save(path, quality=90)


def _pictures(count: int, side: int, photographs: Path | None, rng: np.random.Generator) -> Iterator[Image.Image]:
    if photographs is None:
        for _ in range(count):
            yield Image.fromarray(rng.integers(0, 256, (side // 8, side // 8 * 4 // 3, 3), np.uint8))
        return
    with zipfile.ZipFile(photographs) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        for name in names[:: max(1, len(names) // count)][:count]:
            yield Image.open(io.BytesIO(archive.read(name))).convert("RGB")


def read_pillow(path: Path) -> Image.Image:
    with Image.open(path) as file:
        return file.convert("RGB")


def read_torchvision(path: Path) -> Tensor:
    from torchvision import io as files

    return files.decode_jpeg(files.read_file(str(path)), mode=files.ImageReadMode.RGB)


class Files(Dataset[Tensor]):
    """One image at a time, as torchvision's users write it."""

    def __init__(self, paths: Sequence[Path], size: int, read: Callable[[Path], Any], pillow: bool) -> None:
        from torchvision.transforms import v2

        self.paths, self.read = paths, read
        cut = [v2.RandomResizedCrop(size, scale=SCALE, antialias=True), v2.RandomHorizontalFlip()]
        self.transform = v2.Compose(
            [*cut, *([v2.PILToTensor()] if pillow else []), v2.ToDtype(torch.float32, scale=True)]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(self.read(self.paths[index]))


def peers(loader: DataLoader[Tensor], device: torch.device) -> None:
    for batch in loader:
        batch.to(device, non_blocking=True)


def ours(store: ImageStore, augment: RandomResizedCrop, batches: Sequence[Tensor], epoch: Iterator[int]) -> None:
    generator = torch.Generator().manual_seed(next(epoch))
    draws = [augment.draw(len(rows), generator) for rows in batches]
    for number in range(-AHEAD, len(batches)):
        if number + AHEAD < len(batches):
            store.prefetch(batches[number + AHEAD], augment, draws[number + AHEAD])
        if number >= 0:
            store.views(batches[number], augment, draws[number])


def worst_difference(store: ImageStore, augment: RandomResizedCrop, count: int) -> float:
    """Of our pixels from the plain way, in 1/255."""
    rows = torch.arange(min(count, len(store)))
    draws = augment.draw(len(rows), torch.Generator().manual_seed(0))
    found = store.views(rows, augment, draws).cpu()
    whole = store.table.read(rows, store.view)
    windows = augment.windows(whole.heights, whole.widths, draws).long().tolist()
    worst = 0.0
    for view, (top, left, height, width), draw, row in zip(found, windows, draws, rows.tolist(), strict=True):
        with Image.open(store.table.source.where(row)) as file:
            rgb = file.convert("RGB")
        high, wide = store.view.resized(rgb.height, rgb.width)
        canvas = torch.from_numpy(np.array(rgb.resize((wide, high), Image.Resampling.BILINEAR)))
        window = canvas[top : top + height, left : left + width].permute(2, 0, 1)[None].float()
        plain = F.interpolate(window, found.shape[2:], mode="bilinear", antialias=True)[0]
        plain = plain.flip(2) if draw[-1] < 0.5 else plain
        worst = max(worst, float((view * 255 - plain).abs().max()))
    return worst


def times() -> tuple[float, float]:
    """Processor time of this process with all those that it started, and of this one alone."""
    there = 0.0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            there += sum(child.cpu_times()[:2])
    return sum(os.times()[:4]) + there, time.process_time()


def cpu_time(work: Callable[[], object], images: int) -> tuple[float, float]:
    """Milliseconds of processor time per image, of all processes and of this one alone."""
    begin = times()
    work()
    everyone, alone = (1e3 / images * (after - before) for before, after in zip(begin, times(), strict=True))
    return everyone, alone


class Bench:
    """Rows of one folder of files.

    Args:
        options: the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device, self.table = options, torch.device(options.device), from_folder(options.files)
        self.augment = RandomResizedCrop(size=options.size, scale=SCALE)

    def store(self, kind: Cache) -> ImageStore:
        """Ours."""
        view = View(self.options.size, self.options.size * 8 // 7)
        return ImageStore(self.table, view, self.device, kind, workers=self.options.workers)

    def loader(self, name: str) -> DataLoader[Tensor]:
        """A peer's."""
        paths = [self.options.files / identity for identity in self.table.ids]
        if name == "torchvision":
            read_torchvision(paths[0])  # or fail here, where it has no decoder
        return DataLoader(
            Files(paths, self.options.size, read_pillow if name == "pillow" else read_torchvision, name == "pillow"),
            batch_size=BATCH,
            num_workers=self.options.workers,
            pin_memory=self.device.type == "cuda",
            persistent_workers=True,
        )

    def work(self, name: str) -> Callable[[], object]:
        """What a row does again and again."""
        if name == "fill":
            return partial(self.store, "memory")
        if name in ("pillow", "torchvision"):
            return partial(peers, self.loader(name), self.device)
        batches = torch.arange(len(self.table)).split(BATCH)
        return partial(ours, self.store(cast(Cache, name)), self.augment, batches, iter(range(10**6)))

    def row(self, name: str) -> dict[str, Any]:
        """One row."""
        work, images = self.work(name), len(self.table)
        rate = images / seconds(work, self.options.repeats, warm=1)
        everyone, alone = cpu_time(work, images)
        return {"row": name, "images_per_s": rate, "cpu_ms": everyone, "main_ms": alone}


def in_process(name: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """A row from a process of its own; None, with a line why, where it cannot be measured here."""
    command = [sys.executable, str(Path(__file__)), "--row", name]
    for option in ("files", "size", "workers", "device", "repeats"):
        command += [f"--{option}", str(getattr(options, option))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"without {name}: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--side", type=int, default=375, help="shorter side of the files")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--photographs", type=Path, help="a zip of images")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--row", choices=ROWS, help="measure this one in this process; needs --files")
    parser.add_argument("--files", type=Path, help="a folder with images")
    options = parser.parse_args()
    ensure_torchvision()
    if options.row:
        print(json.dumps(Bench(options).row(options.row)))
        return
    with tempfile.TemporaryDirectory() as name:
        os.environ["HOLDFAST_CACHE"] = str(Path(name) / "cache")
        options.files = Path(name) / "files"
        options.files.mkdir()
        make_folder(options.files, options.images, options.side, options.photographs)
        bench = Bench(options)
        worst = worst_difference(bench.store("none"), bench.augment, 64)
        if worst > 1:
            raise SystemExit(f"pixels differ by {worst:.2f}/255 from decoding, resizing, cropping and resizing")
        rows = [row for name in ROWS if (row := in_process(name, options))]
    rates = {row["row"]: row["images_per_s"] for row in rows}
    there = [peer for peer in ("pillow", "torchvision") if peer in rates]
    name = torch.cuda.get_device_name() if options.device == "cuda" else processor(torch.get_num_threads())
    print(f"{'data path':12} {'images/s':>9} {' '.join(f'{chr(215)} {peer:>11}' for peer in there)}  CPU ms main ms")
    for row in rows:
        row |= {f"x_{peer}": row["images_per_s"] / rates[peer] for peer in there}
        row |= {"workers": options.workers, "side": options.side, "worst_255": worst, "device": name}
        ratios = " ".join(f"{row[f'x_{peer}']:13.2f}" for peer in there)
        print(f"{row['row']:12} {row['images_per_s']:9.0f} {ratios} {row['cpu_ms']:7.2f} {row['main_ms']:7.2f}")
    print(f"pixels within {worst:.3f}/255")
    write(rows, options.json)


if __name__ == "__main__":
    main()
