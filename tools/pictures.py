"""Pictures of the first screens of reports/diagnosis/. Needs Chromium.

    python tools/pictures.py [--browser chromium]

Each picture says in its own `Description` what its screen said, so that a test can tell one that its page has outgrown.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from diagnose_cases import CASES, OUT

SIZE = (1200, 840)           # of a screen, pixels
COLORS = 64
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1")


def first_screen(twin: dict) -> str:
    "Return what the first screen of a diagnosis says: its decision, and which tests are in distribution."
    boxes = dict.fromkeys(f"{row['test']}: {'in distribution' if row['like'] else 'new data'}"
                          for row in twin["decision"]["results"])
    return "\n".join([twin["decision"]["heading"], twin["decision"]["reason"], *boxes])


def screenshot(browser: str, page: Path, picture: Path) -> None:
    "Write a picture of the top of a page."
    with tempfile.TemporaryDirectory() as profile:
        window = f"--window-size={SIZE[0]},{SIZE[1]}"
        command = [browser, *FLAGS, f"--user-data-dir={profile}", window, f"--screenshot={picture}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", default="chromium", help="the program that draws")
    browser = parser.parse_args().browser
    for name in CASES:
        description = PngInfo()
        description.add_text("Description", first_screen(json.loads((OUT / f"{name}.json").read_text("utf-8"))))
        with tempfile.TemporaryDirectory() as folder:
            screenshot(browser, OUT / f"{name}.html", Path(folder) / "screen.png")
            screen = Image.open(Path(folder) / "screen.png").convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
        screen.save(OUT / f"{name}.png", optimize=True, pnginfo=description)
    return 0


if __name__ == "__main__":
    sys.exit(main())
