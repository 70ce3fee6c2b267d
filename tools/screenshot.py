"""Take the README's picture again: a part of the demo's page, as a browser shows it.

holdfast demo
python tools/screenshot.py runs/demo/report.html docs/images/comparison.png --at '#queries' --height 624
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MARGIN = 20
"""Pixels of the page beside a part of it; above, its border is left out."""
COLOURS, ROUNDS = 192, 2
"""Of the palette: a page has few, and the file becomes a quarter of its size; rounds of k-means keep rare ones."""


def photograph(page: Path, at: str | None, width: int, height: int, scale: float) -> bytes:
    """The top of a page, or of the part of it that a selector names, as PNG."""
    system = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=system, args=["--no-sandbox"])
        try:
            tab = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=scale)
            tab.goto(page.resolve().as_uri())
            tab.wait_for_load_state("networkidle")
            box = tab.locator(at).bounding_box() if at else None
            if box is None:
                return tab.screenshot()
            box["x"], box["y"], box["width"] = box["x"] - MARGIN, box["y"] + MARGIN, box["width"] + 2 * MARGIN
            box["height"] = min(height, box["height"])
            return tab.screenshot(full_page=True, clip=box)
        finally:
            browser.close()


def main() -> None:
    """Photograph a page, shrink the palette, write the file."""
    parser = argparse.ArgumentParser(description="Take a picture of a report.")
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--at", metavar="SELECTOR", help="a part of the page, such as #strips")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--scale", type=float, default=1.5, help="pixels of the file per pixel of the page")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    taken = photograph(options.page, options.at, options.width, options.height, options.scale)
    pixels = Image.open(io.BytesIO(taken)).convert("RGB")
    pixels.quantize(COLOURS, kmeans=ROUNDS, dither=Image.Dither.NONE).save(options.out, optimize=True)
    print(f"{options.out}: {options.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
