"A command for data files and encoders: data."
import textwrap
from itertools import groupby

import typer

from ...checks import EncoderError, visible
from ...commands.terminal import OWN_PAIRS_PANEL, echo, end

app = typer.Typer()


@app.command(rich_help_panel=OWN_PAIRS_PANEL)
def data():
    """List data files and base encoders: where they are, and how to get the others.

    Exits with status 1 if a file differs from the published one."""
    from ...data.registry import inventory
    from ...encoders.loading import encoder_cards, find_folder
    from ...settings import EncoderConfig
    entries = inventory()
    for dataset, files in groupby(entries, key=lambda entry: entry["dataset"]):
        echo(visible(dataset))
        for entry in files:
            size = f", {entry['bytes']:,} bytes" if entry["bytes"] else ""
            _print_entry(f"{entry['file']}: {entry['status']}{size}", str(entry["path"] or entry["how"] or ""))
    echo("\nbase encoders")
    for name, card in encoder_cards().items():
        try:
            place = str(find_folder(EncoderConfig(name=name, kind=card.kind), download=False))
        except EncoderError as e: # how to get it
            place = str(e)
        zero_shot = "" if card.zero_shot else ", not for zero-shot use"
        _print_entry(f"{name}: {card.kind}{zero_shot}, trained on {card.trained_on}", place)
    for name, kind in (("tiny", "transformer"), ("tiny-static", "static")):
        _print_entry(f"{name}: {kind}, trained on synthetic data", "trained here when first used")
    wrong_files = [f"{entry['dataset']}/{entry['file']}" for entry in entries if entry["status"] == "refused"]
    if wrong_files:
        end(f"other contents than the registry's: {', '.join(wrong_files)}")


def _print_entry(line: str, place: str) -> None: # place: a path or words, or nothing
    "Print a line, and where it is below it."
    echo(f"  {line}")
    if place:
        echo(textwrap.indent(place, "      "))
