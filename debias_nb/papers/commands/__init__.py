"The commands of the companion to the papers."
import typer

from . import data, maintenance, reproduction

app = typer.Typer()
for part in (data, reproduction, maintenance):
    app.add_typer(part.app)
