"The commands of the companion to the papers."
import typer

from .data import app as data_app
from .maintenance import app as maintenance_app
from .reproduction import app as reproduction_app
from .weights import app as weights_app

app = typer.Typer()
for part in (data_app, reproduction_app, weights_app, maintenance_app):
    app.add_typer(part)
