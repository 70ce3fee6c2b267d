"""From JPEG files to augmented batches on the device: images per second, ours against `torch` DataLoaders.

    python benchmarks/data.py --workers 2 --json data.json
    python benchmarks/data.py --workers 16 --images 4096 --device cuda --json data.json

Files are real photographs where a zip of some is given (`--photographs`), resized to `--side`; else smooth noise. The
peers decode with Pillow or with torchvision's own decoder, then torchvision's transforms (v2) crop, resize, mirror and
convert; persistent workers, pinned memory where there is a GPU. Ours has as many threads, or processes. All end with a
float32 batch on the device. Rows that cannot be run here (torchvision without its decoder) are left out.

- pillow, torchvision: the peers; - none: decoded at each use, two batches ahead; - disk: decoded once into a file, then
mapped; - memory: decoded once, then taken from memory; - fill: what that first decoding takes.

Before anything is timed, our pixels are compared with those of decoding, resizing to the canvas with Pillow, cropping
and resizing with torch; a difference above 1/255 stops the run. `cpu_ms` is processor time per image, all processes
together, which a busy machine blurs less than it does the clock; `main_ms` is that of this process alone, with its
threads, which the others' workers must wait for.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from PIL import Image
from timing import processor, write
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from holdfast.data import ImageStore, from_folder
from holdfast.data.augment import RandomResizedCrop
from holdfast.models.names import ensure_torchvision
from holdfast.view import View

BATCH = 64
CLASSES = 8
SCALE = (0.2, 1.0)
AHEAD = 2


def make_folder(folder: Path, count: int, side: int, photographs: Path | None) -> list[Path]:
    """Photographs whose shorter side is `side`."""
    generator = np.random.default_rng(0)
    paths = []
    for number, image in enumerate(_pictures(count, side, photographs, generator)):
        path = folder / f"class{number % CLASSES}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        factor = side / min(image.size)
        size = round(image.width * factor), round(image.height * factor)
        image.resize(size, Image.Resampling.BICUBIC).save(path, quality=90)
        paths.append(path)
    return paths


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


def measure(works: dict[str, Callable[[], object]], repeats: int, device: torch.device) -> dict[str, float]:
    """Median seconds of each, all in turn; the first turn warms up."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            if device.type == "cuda":
                torch.cuda.synchronize()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(each[1:]) for name, each in taken.items()}


def cpu_time(work: Callable[[], object], images: int) -> tuple[float, float]:
    """Milliseconds of processor time per image, of all processes and of this one alone."""
    begin = times()
    work()
    everyone, alone = (1e3 / images * (after - before) for before, after in zip(begin, times(), strict=True))
    return everyone, alone


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
    arguments = parser.parse_args()
    ensure_torchvision()
    size, view, workers = arguments.size, View(arguments.size, arguments.size * 8 // 7), arguments.workers
    device, augment = torch.device(arguments.device), RandomResizedCrop(size=size, scale=SCALE)
    with tempfile.TemporaryDirectory() as name:
        os.environ["HOLDFAST_CACHE"] = str(Path(name) / "cache")
        files = Path(name) / "files"
        files.mkdir()
        paths = make_folder(files, arguments.images, arguments.side, arguments.photographs)
        table = from_folder(files)
        batches = torch.arange(len(paths)).split(BATCH)
        paths = [files / identity for identity in table.ids]
        stores = {kind: ImageStore(table, view, device, kind, workers=workers) for kind in ("none", "disk", "memory")}
        worst = worst_difference(stores["none"], augment, 64)
        if worst > 1:
            raise SystemExit(f"pixels differ by {worst:.2f}/255 from decoding, resizing, cropping and resizing")
        epochs = iter(range(10**6))
        datasets = {"pillow": Files(paths, size, read_pillow, True)}
        try:
            read_torchvision(paths[0])
            datasets["torchvision"] = Files(paths, size, read_torchvision, False)
        except (RuntimeError, OSError, ImportError) as error:
            print(f"without torchvision's decoder: {str(error).splitlines()[0]}")
        pinned = device.type == "cuda"
        load = partial(DataLoader, batch_size=BATCH, num_workers=workers, pin_memory=pinned)
        loaders = {name: load(each, persistent_workers=True) for name, each in datasets.items()}
        works: dict[str, Callable[[], object]] = {
            **{name: partial(peers, loader, device) for name, loader in loaders.items()},
            **{kind: partial(ours, store, augment, batches, epochs) for kind, store in stores.items()},
            "fill": lambda: ImageStore(table, view, device, "memory", workers=workers),
        }
        taken = measure(works, arguments.repeats, device)
        spent = {name: cpu_time(work, len(paths)) for name, work in works.items()}
    rows: list[dict[str, Any]] = [
        {
            "row": name,
            "images_per_s": len(paths) / seconds,
            **{f"x_{peer}": taken[peer] / seconds for peer in datasets},
            "cpu_ms": spent[name][0],
            "main_ms": spent[name][1],
            "workers": workers,
            "side": arguments.side,
            "worst_255": worst,
            "device": torch.cuda.get_device_name(device) if pinned else processor(torch.get_num_threads()),
        }
        for name, seconds in taken.items()
    ]
    titles = " ".join(f"{'× ' + peer:>13}" for peer in datasets)
    print(f"{'data path':12} {'images/s':>9} {titles} {'CPU ms':>7} {'main ms':>7}")
    for row in rows:
        ratios = " ".join(f"{row[f'x_{peer}']:13.2f}" for peer in datasets)
        print(f"{row['row']:12} {row['images_per_s']:9.0f} {ratios} {row['cpu_ms']:7.2f} {row['main_ms']:7.2f}")
    print(f"pixels within {worst:.3f}/255")
    write(rows, arguments.json)


if __name__ == "__main__":
    main()
