"The notebooks as people meet them in JupyterLab and papermill."
import base64
import json
import re
import struct
import symtable
import sys
from pathlib import Path

import nbformat
import pytest

import lab
import outputs
from notebooks import ROOT, notebooks
from debias_nb.checks import ConfigError
from debias_nb.repro.pages import frame
from debias_nb.repro.notebooks import executed_path
from debias_nb.repro.config import load_experiment, typed

NOTEBOOKS = notebooks()
PAPERS = [path for path in NOTEBOOKS if path.is_relative_to(ROOT / "nbs/papers")]
TABLE = ROOT / "nbs/papers/itvreg/table03.ipynb"


def named(path):
    return path.relative_to(ROOT / "nbs").as_posix()


def cells(path):
    return json.loads(path.read_text("utf-8"))["cells"]


def code(path):
    return ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code"]


# What is stored.

@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_every_figure_is_kept_as_dots_too(path):
    "JupyterLab draws no SVG in a notebook that it does not trust, and a clone is never trusted."
    for cell in cells(path):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            assert "image/svg+xml" not in data or "image/png" in data, cell["id"]
            if "image/png" in data:
                dots = base64.b64decode(data["image/png"])
                width, height = struct.unpack(">II", dots[16:24])
                assert dots[:4] == b"\x89PNG" and width > 150 and height > 100 and len(dots) < 60_000, cell["id"]


LIBRARY = [path for path in NOTEBOOKS if any(re.search(r"^#\|\s*default_exp", source, re.M) for source in code(path))]


def bound(sources, imports):
    "The names that cells bind for those below."
    found = set()
    for source in sources:
        for symbol in symtable.symtable(source, "cell", "exec").get_symbols():
            if symbol.is_assigned() or imports and symbol.is_imported():
                found.add(symbol.get_name())
    return found


@pytest.mark.parametrize("path", LIBRARY, ids=named)
def test_no_example_takes_a_name_that_the_library_needs(path):
    "In a notebook both share their names, and a function that is called after it would find the example's."
    exported = [source for source in code(path) if re.search(r"^#\|\s*export", source, re.M)]
    examples = [source for source in code(path) if source not in exported]
    assert not bound(exported, imports=True) & bound(examples, imports=False)


def test_lab_saves_a_notebook_as_it_lay_there(tmp_path, monkeypatch):
    "With counts, times, a newer Python, a progress bar and a trusted output: nothing of that is written."
    from jupyter_server.services.contents.filemanager import FileContentsManager
    copy = tmp_path / "nbs/papers/itvreg/table03.ipynb"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(TABLE.read_bytes())
    (tmp_path / "settings.ini").write_bytes((ROOT / "settings.ini").read_bytes())
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    manager = FileContentsManager(root_dir=str(tmp_path), pre_save_hook=lab.clean_before_saving)
    model = manager.get("nbs/papers/itvreg/table03.ipynb")
    nb = model["content"]
    nb["metadata"]["language_info"]["version"] = "3.12.9"
    nb["metadata"]["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
    bar = nbformat.v4.new_output("display_data", {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "bar"})
    del bar["data"]["text/plain"]
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = 7
            cell["metadata"] |= {"trusted": True, "execution": {"iopub.status.idle": "2026"}}
            cell["outputs"].append(bar)
    manager.save(model, "nbs/papers/itvreg/table03.ipynb")
    assert copy.read_bytes() == TABLE.read_bytes()

    model = manager.get("nbs/papers/itvreg/table03.ipynb")
    model["content"]["cells"][0]["source"] += " and words"
    manager.save(model, "nbs/papers/itvreg/table03.ipynb")
    assert "and words" in copy.read_text(), "what somebody writes is kept"


def test_lab_is_told_so(tmp_path):
    lab.settle(tmp_path)
    spec = json.loads((tmp_path / "share/jupyter/kernels/python3/kernel.json").read_text())
    assert spec["display_name"] == "python3" and spec["argv"][0] == sys.executable
    text = (tmp_path / "etc/jupyter/jupyter_server_config.py").read_text()
    assert str(ROOT / "tools") in text and "pre_save_hook = clean_before_saving" in text


# The order for a reader.

@pytest.mark.parametrize("path", PAPERS, ids=named)
def test_a_reading_fits_into_the_window(path):
    wide = [line for source in code(path) if "Reading" in source for line in source.splitlines() if len(line) > 100]
    assert wide == []


# One notebook to read for each method.

READ = [path for path in NOTEBOOKS if path.is_relative_to(ROOT / "nbs/read")]
SCREEN = 42  # lines that a window of JupyterLab shows
LINE = 110   # characters
PICTURE = 15 # lines that a figure takes


def lines_of_code(path): # that are not folded
    shown = [cell for cell in cells(path) if not cell["metadata"].get("jupyter", {}).get("source_hidden")]
    lines = [line.strip() for cell in shown if cell["cell_type"] == "code" for line in "".join(cell["source"]).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def layout(cells):
    "How many lines a reader sees, and after how many each picture and each heading comes; a folded cell takes one."
    seen, pictures, headings = 0, [], {}
    for cell in cells:
        lines = "".join(cell["source"]).splitlines()
        if cell["cell_type"] == "markdown":
            for line in lines:
                if line.startswith("## "):
                    headings[line.removeprefix("## ").partition(":")[0]] = seen
                seen += max(1, -(-len(line) // LINE))
        else:
            seen += 1 if cell["metadata"].get("jupyter", {}).get("source_hidden") else len(lines)
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            pictures.append(seen)
            seen += PICTURE
    return seen, pictures, headings


def numbers_of(text):
    return re.findall(r"(?<![\w.])\d+\.\d+|(?<![\w.])\d{2,}(?![\w.]*\w)", text)


def unprinted(cells):
    "The numbers of several digits in the prose that no code has and no output shows; links, code and formulas apart."
    known, told = "", ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            told += re.sub(r"\[[^]]*\]\([^)]*\)|`[^`]*`|\$[^$]*\$|AUC\(0\.05\)", " ", "".join(cell["source"]))
        else:
            known += "".join(cell["source"])
            for output in cell["outputs"]:
                known += "".join(output.get("text", "")) + "".join(output.get("data", {}).get("text/html", ""))
    return [number for number in numbers_of(told) if float(number) not in map(float, numbers_of(known))]


def test_each_paper_has_a_notebook_to_read():
    assert [path.stem for path in READ] == sorted(path.name for path in (ROOT / "nbs/papers").iterdir() if path.is_dir())


@pytest.mark.parametrize("path", READ, ids=named)
def test_a_notebook_to_read_is_short_and_shows_first_what_it_is_about(path):
    assert len(lines_of_code(path)) <= 200
    seen, pictures, headings = layout(cells(path))
    assert 4 <= len(pictures) <= 6 and pictures[0] <= SCREEN
    assert headings["The insight"] <= .4 * seen
    order = ["The idea", "The insight", "What it costs", "Where it fails", "In your own training", "Four questions"]
    assert [name for name in headings if name in order] == order


@pytest.mark.parametrize("path", READ, ids=named)
def test_a_notebook_to_read_shows_the_papers_figure_and_answers_its_questions(path):
    told = "\n".join("".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "markdown")
    assert f"](../../reports/{path.stem}/figure01.svg)" in told
    questions, _, answers = told.partition("## Four questions")[2].partition('<details markdown="1"><summary>Answers</summary>')
    assert [re.findall(r"^(\d)\. ", part, re.M) for part in (questions, answers)] == [["1", "2", "3", "4"]] * 2
    assert "".join(cells(path)[-1]["source"]).count("**Read on:**") == 1, "nothing comes after it"


@pytest.mark.parametrize("path", READ, ids=named)
def test_a_notebook_to_read_has_been_run_and_exports_nothing(path):
    nb = json.loads(path.read_text("utf-8"))
    assert outputs.STAMP in nb["metadata"] and not outputs.stale(nb)
    assert not any(re.search(r"^#\|\s*(export|default_exp)", source, re.M) for source in code(path))
    assert unprinted(nb["cells"]) == []


# Parameters.

def test_another_profile_is_found_and_mended():
    nb = json.loads(TABLE.read_text("utf-8"))
    for cell in nb["cells"]:
        cell["source"] = [line.replace('profile: str = "small"', 'profile: str = "planted"') for line in cell["source"]]
    assert outputs.name_profile(TABLE, nb) == 'profile: str = "planted"'
    assert nb["cells"] == cells(TABLE)


@pytest.mark.parametrize("value, kind, wanted", [
    (1, list[int] | None, [1]), ("ITVReg", list[str] | None, ["ITVReg"]), ([1, 2], list[int], [1, 2]),
    (None, list[int] | None, None), (1, float | None, 1.), (2, int | None, 2)])
def test_one_value_where_a_list_is_meant_is_a_list_of_one(value, kind, wanted):
    assert typed("x", value, kind) == wanted


@pytest.mark.parametrize("given, words", [
    ({"weight": "abc"}, "weight must be float | None, got 'abc'"),
    ({"seeds": [True]}, "seeds must be list[int] | None"),
    ({"methods": 3}, "methods must be list[str] | None"),
    ({"fresh": "yes"}, "fresh must be bool"),
    ({"methods": "ITVRge"}, "did you mean 'ITVReg'?"),
    ({"seeds": []}, "seeds: "),
])
def test_a_notebook_refuses_parameters_of_another_type_in_words(given, words):
    with pytest.raises(ConfigError) as error:
        frame.study("itvreg/table03", "planted", **given)
    assert words in str(error.value)


# One page, and one's own runs.

def test_a_notebook_that_is_run_as_it_is_shows_its_page_and_runs_nothing(monkeypatch):
    monkeypatch.setattr(frame, "made", lambda *args, **more: pytest.fail("runs are made"))
    found = frame.study("itvreg/table05", "small")
    with frame.only_stored():
        assert found._repr_markdown_() == frame.stored("itvreg/table05", "small")._repr_markdown_()


@pytest.mark.parametrize("given", [
    {"seeds": [0]}, {"methods": "Base"}, {"weight": 0}, {"weight": 1.}, {"full": True}, {"fresh": True}, {"own": True}])
def test_whoever_asks_for_something_else_gets_it(monkeypatch, given):
    monkeypatch.setattr(frame, "made", lambda *args, **more: "runs of one's own")
    assert frame.study("itvreg/table05", "small", **given) == "runs of one's own"


@pytest.fixture
def weighted(tmp_path, monkeypatch):
    "A study at another lambda, none of whose runs can be made here: every run has an invented record."
    from debias_nb.repro.runs import runner
    from test_cli import invented
    monkeypatch.setenv("DEBIAS_NB_RUNS", str(tmp_path))
    stores = []

    def run_all(runs, store, **more):
        stores.append((store, runs))
        for run in runs:
            found = {name: {"auc05": .5} for name in run.evaluate}
            store.append(invented(run, found)) if store.folder == tmp_path else None
        return runner.Outcome({run.id: {} for run in runs}, {}, {}, [])

    monkeypatch.setattr(runner, "run_all", run_all)
    asked = dict(seeds=[0], methods=["Base", "Finetuned", "OutReg"], encoders=None, weight=1., full=False)
    return frame.made("itvreg/table03", "small", asked, None, False), stores, tmp_path


def test_another_lambda_is_told_on_top_and_as_the_strength_of_each_row_and_not_written_over_the_records_of_the_page(weighted):
    study, ((kept, standing), (own, others)), folder = weighted
    top = study._repr_markdown_()
    assert top.startswith("**Not the settings of the configuration:** λ = 1 for ")
    assert "seeds 0 alone; Base, Finetuned, OutReg alone, of " in top
    strengths = study["table3"].groupby("method").strength.first()
    assert strengths["OutReg"] == 1 and strengths[["Base", "Finetuned"]].isna().all()
    configured = {run.id for run in load_experiment("itvreg/table03", "small").runs()}
    assert kept.folder == ROOT / "results" and own.folder == folder
    assert {run.id for run in standing} <= configured
    assert others and not {run.id for run in others} & configured


def test_one_seed_says_that_nothing_is_compared_and_how_to_ask_for_two(weighted):
    study, *_ = weighted
    assert "**One seed:**" in study._repr_markdown_() and "-p seeds '[0,1]'" in study._repr_markdown_()
    with frame.only_stored():
        assert "One seed" not in frame.stored("itvreg/table05", "small")._repr_markdown_()


def test_executed_notebooks_have_names_that_tell_them_apart():
    def named(**parameters):
        path = executed_path(Path("/x"), "itvreg/table03", "small", parameters)
        return path.relative_to("/x/_runs/notebooks").as_posix()

    assert named() == named(full=True, workers=2) == "itvreg/table03.small.ipynb"
    assert named(weight=1., seeds=[0, 2]) == "itvreg/table03.small.seeds=0,2.weight=1.ipynb"
    assert named(methods=["OutReg 0.1", "../x"]) == "itvreg/table03.small.methods=OutReg-0.1,..-x.ipynb"
    long = [named(methods=["a" * 200, last]) for last in "ab"]
    assert long[0] != long[1] and all(len(name) < 120 for name in long)


@pytest.mark.parametrize("expected, words", [
    ((2400., False), ["4 runs on 1 processes: about 40 minutes, by such runs"]),
    ((9000., True), ["4 runs on 1 processes: about 2.5 hours, by a guess"]),
    ((40., False), []),
])
def test_what_takes_long_says_so_beforehand(monkeypatch, expected, words):
    from debias_nb.repro.runs import runner
    monkeypatch.setattr(runner, "expected_seconds", lambda runs: expected)
    runs = load_experiment("itvreg/table03", "small").runs()[:4]
    said = []
    monkeypatch.setattr(runner, "_parallel", lambda *args: iter(()))
    monkeypatch.setattr(runner, "absent", lambda run: None)
    runner.run_all(runs, runner.Store("nowhere"), workers=1, progress=False, say=said.append)
    assert said == words
