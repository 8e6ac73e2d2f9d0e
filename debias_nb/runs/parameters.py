"Parameters of a notebook, as papermill sets them."
import ast

from ..checks import RunnerError, check_known

OF_PAPERMILL = {"PAPERMILL_INPUT_PATH", "PAPERMILL_OUTPUT_PATH"} # of its option --inject-paths
INJECTED = "# Parameters\n" # how papermill begins the cell that it adds below that of the parameters


def check_injected() -> None:
    """Refuse a parameter that papermill has set here, and that no cell declares as `name: type = value`.

    Papermill by itself mentions such a name in a warning, and runs the notebook as if nothing had been said. Raises
    `RunnerError` with the nearest name; outside of a notebook nothing is checked."""
    import __main__
    cells = getattr(__main__, "In", [])
    parameter_cells = [cell for cell in cells if cell.startswith(INJECTED)]
    if not parameter_cells:
        return
    declared = [line.target.id for cell in cells for line in _lines(cell) if isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)]
    names = [target.id for line in _lines(parameter_cells[-1]) if isinstance(line, ast.Assign)
             for target in line.targets if isinstance(target, ast.Name)]
    for name in {*names} - OF_PAPERMILL:
        check_known("parameter called", name, declared, RunnerError)


def _lines(cell: str) -> list:
    "Parse the statements of a cell; none where it is no plain Python."
    try:
        return ast.parse(cell).body
    except SyntaxError:
        return []
