"A command for data files and encoders: data."
import textwrap
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from ...checks import EncoderError, visible
from ...commands.terminal import OWN_PAIRS_PANEL, echo, end

app = typer.Typer()


def _write_shifts(folder: Path) -> None:
    "Write training sets and tests of shifts between kinds of text, and synthetic ones, for `compare` and `diagnose`."
    from ..data.products import CATEGORIES
    from ...data.registry import MissingData
    from ...data.sentences import SENTENCE_KINDS, NEWS
    from ...settings import WorldConfig
    from ..settings.pairs import PairsCorpus
    from ..data.labeled_pairs import PLANTED_SPLITS, evaluation_pairs, training_pairs
    questions = ("quora", "askubuntu")
    planted = PairsCorpus(name="catalogue", world=WorldConfig())
    sources = {"planted/train": partial(training_pairs, planted)}
    sources |= {f"train/{name}": partial(training_pairs, PairsCorpus(name=name))
                for name in (*questions, NEWS, "computers", "shoes")}
    sources |= {f"planted/{name}": partial(evaluation_pairs, name, planted, planted.world) for name in PLANTED_SPLITS}
    sources |= {f"test/{name}": partial(evaluation_pairs, name, None, None)
                for name in (*questions, *SENTENCE_KINDS, *CATEGORIES)}
    for name, read in sources.items():
        try:
            pairs = read()
        except MissingData as e:
            echo(f"left out: {str(e).splitlines()[0]}", err=True)
            continue
        file = folder / f"{name}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        pairs.frame()[["left", "right", "label"]].to_csv(file, index=False)
        echo(f"{file}: {len(pairs.labels):,} pairs")


@app.command(rich_help_panel=OWN_PAIRS_PANEL)
def data(
    shifts: Annotated[Path | None, Option(
        file_okay=False, help="Write the pairs of shifts between kinds of text, and synthetic ones, into this folder "
                              "as CSV files.")] = None,
):
    """List data files and base encoders: where they are, and how to get the others.

    Exits with status 1 if a file differs from the published one."""
    if shifts:
        return _write_shifts(shifts)
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
