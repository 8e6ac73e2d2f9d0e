"The notebooks as people meet them in JupyterLab and papermill."
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from cells import python_of
from notebooks import ROOT, notebooks, settings
from debias_nb.checks import ConfigError, Interrupted, RunnerError
from debias_nb.papers.pages import frame
from debias_nb.papers.pages.tables import show
from debias_nb.runs import runner
from debias_nb.runs.config import load_experiment, typed

NOTEBOOKS = notebooks()
READ = [path for path in NOTEBOOKS if path.is_relative_to(ROOT / "nbs/read")] # one for each method


def name_of(path):
    return path.relative_to(ROOT / "nbs").as_posix()


def cells(path):
    return json.loads(path.read_text("utf-8"))["cells"]


def code(path):
    return [python_of(cell) for cell in cells(path) if cell["cell_type"] == "code"]


# What is stored.

@pytest.mark.parametrize("path", READ, ids=name_of)
def test_a_notebook_to_read_installs_the_project_only_where_it_is_not(path, monkeypatch, tmp_path):
    first = code(path)[0]
    calls = []
    monkeypatch.setattr("subprocess.run", lambda command, check: calls.append(command))
    monkeypatch.chdir(tmp_path)
    exec(first, {})
    assert calls == [] and Path.cwd() == tmp_path
    (tmp_path / "debias-nb").mkdir() # as the clone would be
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(first, {})
    clone, install = calls
    assert clone[:2] == ["git", "clone"] and clone[-1] == settings()["git_url"]
    assert Path.cwd() == tmp_path / "debias-nb"
    assert install[1:4] == ["-m", "pip", "install"]
    assert install[-1] == ".[repro]"


def numbers_of(text):
    return re.findall(r"(?<![\w.])\d+\.\d+|(?<![\w.])\d{2,}(?![\w.]*\w)", text)


def unknown_words(cells):
    "The numbers of several digits in the prose that no code has and no output shows; links, code and formulas apart."
    text, prose = "", ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            prose += re.sub(r"\[[^]]*\]\([^)]*\)|`[^`]*`|\$[^$]*\$|AUC\(0\.05\)", " ", "".join(cell["source"]))
        else:
            text += "".join(cell["source"])
            for output in cell["outputs"]:
                text += "".join(output.get("text", "")) + "".join(output.get("data", {}).get("text/html", ""))
    return [number for number in numbers_of(prose) if float(number) not in map(float, numbers_of(text))]


@pytest.mark.parametrize("path", READ, ids=name_of)
def test_a_notebook_to_read_has_been_run_and_exports_nothing(path):
    nb = json.loads(path.read_text("utf-8"))
    assert not any(re.search(r"^#\|\s*(export|default_exp)", source, re.M) for source in code(path))
    assert unknown_words(nb["cells"]) == []


@pytest.mark.slow # tools/outputs.py runs them from their own folder
@pytest.mark.parametrize("path", READ, ids=name_of)
def test_a_notebook_to_read_runs_from_the_root_of_the_clone(path):
    nb = nbformat.read(path, as_version=4)
    NotebookClient(nb, timeout=600, resources={"metadata": {"path": str(ROOT)}}).execute()


# Parameters.

@pytest.mark.parametrize("value, kind, result", [
    (1, list[int] | None, [1]), ("ITVReg", list[str] | None, ["ITVReg"]), ([1, 2], list[int], [1, 2]),
    (None, list[int] | None, None), (1, float | None, 1.), (2, int | None, 2)])
def test_one_value_where_a_list_is_meant_is_a_list_of_one(value, kind, result):
    assert typed("x", value, kind) == result


@pytest.mark.parametrize("arguments, words", [
    ({"weight": "abc"}, "weight must be float | None, got 'abc'"),
    ({"seeds": [True]}, "seeds must be list[int] | None"),
    ({"methods": 3}, "methods must be list[str] | None"),
    ({"fresh": "yes"}, "fresh must be bool"),
    ({"methods": "ITVRge"}, "did you mean 'ITVReg'?"),
    ({"seeds": []}, "seeds: "),
])
def test_a_notebook_refuses_parameters_of_another_type_in_words(arguments, words):
    with pytest.raises(ConfigError) as error:
        frame.Results().study("itvreg/table03", "planted", **arguments)
    assert words in str(error.value)


# One page, and one's own runs.

def test_a_notebook_that_is_run_as_it_is_shows_its_page_and_runs_nothing(monkeypatch):
    monkeypatch.setattr(runner, "run", lambda *args, **options: pytest.fail("runs are made"))
    study = frame.Results().study("itvreg/table05", "small")
    assert study._repr_markdown_() == frame.Results().load("itvreg/table05", "small")._repr_markdown_()


@pytest.mark.parametrize("arguments", [
    {"seeds": [0]}, {"methods": "Base"}, {"weight": 0}, {"full": True}, {"fresh": True}, {"own": True}])
def test_whoever_asks_for_something_else_gets_it(monkeypatch, arguments):
    monkeypatch.setattr(runner, "run", lambda *args, **options: None)
    monkeypatch.setattr(frame, "page", lambda *args: "runs of one's own")
    assert frame.Results().study("itvreg/table05", "small", **arguments) == "runs of one's own"


@pytest.fixture
def weighted(tmp_path, monkeypatch):
    "A study at another lambda, none of whose runs can be made here: every run has an invented record."
    from made import record_of
    monkeypatch.setenv("DEBIAS_NB_RUNS", str(tmp_path))
    stores = []

    def run_all(runs, store, **options):
        stores.append((store, runs))
        for run in runs:
            metrics = {name: {"auc05": .5} for name in run.evaluate}
            store.append(record_of(run, metrics)) if store.folder == tmp_path else None
        return runner.Outcome({run.id: {} for run in runs}, {}, {}, [])

    monkeypatch.setattr(runner, "run_all", run_all)
    experiment = runner.load("itvreg/table03", "small", seeds=[0], methods=["Base", "Finetuned", "OutReg"], weight=1.)
    return frame.page(experiment, runner.run(experiment)), stores, tmp_path


def test_another_lambda_is_told_on_top_and_as_the_strength_of_each_row_and_not_written_over_the_records_of_the_page(
        weighted):
    study, ((page_runs, standing), (own_runs, other_runs)), folder = weighted
    top = study._repr_markdown_()
    assert top.startswith("**Not the settings of the configuration:** seeds = [0], methods = ['Base', 'Finetuned', "
                          "'OutReg'], weight = 1.0. ")
    strengths = study["table3"].groupby("method").strength.first()
    assert strengths["OutReg"] == 1 and strengths[["Base", "Finetuned"]].isna().all()
    configured_strengths = {run.id for run in load_experiment("itvreg/table03", "small").runs()}
    assert page_runs.folder == ROOT / "experiments" and own_runs.folder == folder
    assert {run.id for run in standing} <= configured_strengths
    assert other_runs and not {run.id for run in other_runs} & configured_strengths


# What papermill sets.

PARAMETERS_CELL = "profile: str = 'small'\nseeds: list[int] = None # all"


@pytest.mark.parametrize("parameters, words", [
    ("profil = 'planted'", "no parameter called 'profil'; did you mean 'profile'?"),
    ("profile = 'planted'\nnosuch = 3", "no parameter called 'nosuch' (known: 'profile', 'seeds')"),
    ("profile = 'planted'\nseeds = [1]", ""),
])
def test_a_parameter_that_papermill_sets_and_no_cell_declares_is_refused(monkeypatch, parameters, words):
    "Papermill warns of it, and runs the notebook without it."
    monkeypatch.setattr("__main__.In", ["", "%pylab no", PARAMETERS_CELL, f"# Parameters\n{parameters}\n"],
                        raising=False)
    if not words:
        assert frame.Results().study("itvreg/table05", "small")
        return
    for call in (lambda: frame.Results().study("itvreg/table05", "small"), lambda: show("**Answer.**")):
        with pytest.raises(RunnerError) as error:
            call()
        assert str(error.value) == words


def test_a_list_that_papermill_passes_as_a_text_is_refused_with_the_way_that_works():
    with pytest.raises(ConfigError, match=r"papermill takes lists as -y 'methods: \[Base, ITVReg\]'"):
        frame.Results().study("itvreg/table05", "small", methods="[Base, ITVReg]")


def test_what_a_person_stops_ends_in_one_sentence(monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupt)
    with pytest.raises(Interrupted, match="^itvreg/table05 was interrupted; finished runs are kept") as error:
        frame.Results().study("itvreg/table05", "small", own=True)
    assert len(error.value._render_traceback_()) == 1
