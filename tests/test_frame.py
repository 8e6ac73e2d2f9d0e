"""The files around the library agree with each other, and the tools that keep it whole find what is wrong."""
import ast, json, os, re, shutil, subprocess, sys, tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lock as locking
import readme
import sync
from notebooks import flags, is_skipped, local, notebooks, outside_code, relink, settings

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
PAPERS = [p for p in notebooks(ROOT) if p.relative_to(ROOT).parts[1] == "papers"]

def ini(): return settings(ROOT)

def required(lines): # name -> its versions
    found = {}
    for line in lines:
        r = Requirement(line)
        name = canonicalize_name(r.name)
        assert name not in found, f"{name} is named twice"
        found[name] = r.specifier
    return found

def pins(): return required(line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if line and line[0] != "#")

def all_required(): return required(PROJECT["dependencies"] + [r for extra in PROJECT["optional-dependencies"].values() for r in extra])

def test_every_direct_dependency_has_one_pin_inside_its_range():
    ranges, exact = all_required(), pins()
    assert ranges.keys() == exact.keys()
    for name, pin in exact.items():
        assert re.fullmatch(r"==[\w.]+", str(pin)), f"{name}{pin} is no exact version"
        assert ranges[name].contains(str(pin)[2:]), f"constraints.txt has {name}{pin}, pyproject.toml {name}{ranges[name]}"

LOCKS = ("requirements.lock", "requirements-cpu.lock", "requirements-cuda.lock")

def test_the_locks_hold_what_is_pinned_and_name_no_host():
    lock, cpu, cuda = (locking.parsed((ROOT / name).read_text("utf-8")) for name in LOCKS)
    installed = required(PROJECT["dependencies"] + [r for extra in ("repro", "dev", "minilm") for r in PROJECT["optional-dependencies"][extra]])
    assert {n: f"=={(lock | cuda)[n][0]}" for n in installed} == {n: str(pins()[n]) for n in installed}
    assert cpu.keys() == {"torch"} and cpu["torch"][0].partition("+")[0] == cuda["torch"][0] and not lock.keys() & cuda.keys()
    assert all(len(parts) > 1 for parts in [*lock.values(), *cpu.values(), *cuda.values()])
    assert not any("://" in (ROOT / name).read_text("utf-8") for name in LOCKS)

def test_the_list_of_licences_is_complete():
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in (ROOT / "LICENCES.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    assert all(all(row) for row in rows), "each has a licence, or says that none is stated"
    lock, _, cuda = (locking.parsed((ROOT / name).read_text("utf-8")) for name in LOCKS)
    lock["torch"] = cuda["torch"]
    assert {row[:2] for row in rows if len(row) == 3} == {("package", "version"), ("---", "---"), *((name, parts[0]) for name, parts in lock.items())}
    data = yaml.safe_load((ROOT / "debias_nb/data/datasets.yaml").read_text("utf-8"))["datasets"]
    assert {(about["title"], about["licence"]) for about in data.values()} <= set(rows)

def test_a_lock_is_split_by_what_the_build_of_torch_asks_for():
    a, b, c = (f"--hash=sha256:{letter * 64}" for letter in "abc")
    published = {"numpy": ["1", a], "torch": ["2", b], "nvidia-x": ["3", a]}
    found = locking.split(published, {"numpy": ["1", a], "torch": ["2+cpu", c]})
    assert list(found.values()) == [{"numpy": ["1", a]}, {"torch": ["2+cpu", c]}, {"torch": ["2", b], "nvidia-x": ["3", a]}]
    for packages in found.values(): assert locking.parsed(locking.written(packages)) == packages

def test_environment_repeats_the_pins():
    env = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    pip = next(d["pip"] for d in env["dependencies"] if isinstance(d, dict))
    editable = [line for line in pip if line.startswith("-e ")]
    assert {n: str(s) for n, s in required(line for line in pip if line not in editable).items()} == {n: str(s) for n, s in pins().items()}
    assert len(editable) == 1 and set(re.fullmatch(r"-e \.\[(.*)\]", editable[0])[1].split(",")) == set(PROJECT["optional-dependencies"])
    assert f"python={ini()['min_python']}" in env["dependencies"] and PROJECT["requires-python"] == f">={ini()['min_python']}"
    assert env["variables"] == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}

def test_settings_require_what_pyproject_requires():
    run = ini()["requirements"].split() + ini().get("pip_requirements", "").split()
    assert required(run) == required(PROJECT["dependencies"])
    assert required(ini()["dev_requirements"].split()) == required(PROJECT["optional-dependencies"]["dev"])

def test_nbdev_stays_a_tool_of_development():
    run, dev = required(PROJECT["dependencies"]), required(PROJECT["optional-dependencies"]["dev"])
    family = {"nbdev", "fastcore", "execnb", "ghapi", "fastgit"}
    assert not family & run.keys(), "a user would inherit nbdev's old fastcore"
    assert all(str(dev[name]) == str(pins()[name]) for name in family), "these five fit together in one version only"
    for path in (ROOT / "debias_nb").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {n.partition(".")[0] for n in named} & family, f"{path.name}, line {node.lineno}"

def test_one_version_and_one_description():
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "debias_nb/__init__.py").read_text("utf-8"), flags=re.M)[1]
    assert version == ini()["version"] == str(cff["version"])
    assert PROJECT["dynamic"] == ["version"] and PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "debias_nb.__version__"}
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert PROJECT["description"] == ini()["description"] == site["site_description"] == cff["abstract"]
    assert PROJECT["name"] == ini()["lib_name"] == cff["title"] == site["site_name"]
    assert PROJECT["urls"]["Repository"] == ini()["git_url"] == site["repo_url"] == cff["repository-code"]
    assert PROJECT["urls"]["Documentation"] == ini()["doc_host"] + ini()["doc_baseurl"] == site["site_url"].rstrip("/") == cff["url"]
    assert PROJECT["keywords"] == ini()["keywords"].split()
    assert PROJECT["authors"] == [{"name": ini()["author"], "email": ini()["author_email"]}]

def test_licence_is_apache_2_everywhere():
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text and len(text.splitlines()) > 190
    assert ini()["license"] == "apache2" and PROJECT["license"] == yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["license"] == "Apache-2.0"

def test_installed_commands_exist():
    assert PROJECT["scripts"] == {"debias-nb": "debias_nb.repro.entry:main"}
    assert PROJECT["entry-points"]["nbdev"] == {"debias_nb": "debias_nb._modidx:d"} and (ROOT / "debias_nb/_modidx.py").is_file()
    assert ini().getboolean("update_pyproject") is False, "an export would rewrite pyproject.toml"

def imported_by(code):
    "What a fresh Python has imported after `code`, beyond what it starts with."
    report = "import sys\nbefore = set(sys.modules)\ntry:\n    exec(sys.argv[1])\nexcept SystemExit as e:\n    assert not e.code, e\nprint('\\n', *sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", report, code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())

def test_importing_the_library_imports_nothing_else():
    found = {name.partition(".")[0] for name in imported_by("import debias_nb")}
    assert found - set(sys.stdlib_module_names) == {"debias_nb"}

def test_help_needs_no_heavy_import():
    found = imported_by("from debias_nb.repro.cli import app; app(['--help'])")
    assert "debias_nb.repro.cli" in found
    assert not found & {"torch", "transformers", "sentence_transformers", "datasets", "matplotlib", "sklearn", "fastcore"}

def nbdev_runs():
    "The notebooks that nbdev_test executes, by its own functions."
    from nbdev.doclinks import nbglob
    from nbdev.frontmatter import FrontmatterProc
    from nbdev.process import NBProcessor, nb_lang
    from nbdev.test import _keep_file
    for p in nbglob(ROOT / "nbs", as_path=True):
        nb = NBProcessor(p, procs=FrontmatterProc, process=True).nb
        if _keep_file(p, ".notest") and nb_lang(nb) == "python" and str(nb.frontmatter_.get("skip_exec", False)).lower() != "true": yield p.resolve()

def test_nbdev_test_skips_the_paper_notebooks_and_no_other(monkeypatch):
    monkeypatch.chdir(ROOT)
    everything = {p.resolve() for p in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts}
    skipped = everything - set(nbdev_runs())
    assert {p.relative_to(ROOT).as_posix() for p in skipped} == {p.relative_to(ROOT).as_posix() for p in PAPERS}
    assert len(skipped) < len(everything)

@pytest.mark.parametrize("path", PAPERS, ids=lambda p: p.relative_to(ROOT / "nbs").as_posix())
def test_paper_notebook_has_one_parameters_cell_and_is_left_to_papermill(path):
    nb = nbformat.read(path, as_version=4)
    tagged = [c.cell_type for c in nb.cells if "parameters" in c.metadata.get("tags", [])]
    assert tagged == ["code"]
    assert is_skipped(nb), "the title cell must say `- skip_exec: true`"

def test_runs_and_caches_are_ignored_by_git():
    ignored = (ROOT / ".gitignore").read_text("utf-8").split()
    assert {"_runs/", "_docs/", "_proc/", ".venv/", ".cache/", "__pycache__/"} <= set(ignored)
    assert not {"results/", "reports/", "expected/", "debias_nb/"} & set(ignored)

def test_ruff_has_no_complaint():
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", "."], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

def test_ci_script_can_be_run():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK) and subprocess.run(["bash", "-n", script]).returncode == 0

needs_make = pytest.mark.skipif(not shutil.which("make"), reason="GNU make is not installed")

def make(*args, cwd, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "XDG_", "HF_", "JUPYTER", "IPYTHON", "MPL", "PIP_CACHE", "OMP_", "GOMP"))}
    return subprocess.run(["make", *args], cwd=cwd, env={**clean, **env}, capture_output=True, text=True)

@needs_make
def test_make_writes_below_the_project_unless_told_otherwise(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "more.mk").write_text("show:\n\t@env\n")
    shown = dict(line.split("=", 1) for line in make("-f", "Makefile", "-f", "more.mk", "show", cwd=tmp_path, HF_HOME="/elsewhere").stdout.splitlines() if "=" in line)
    below = ["PIP_CACHE_DIR", "MPLCONFIGDIR", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"]
    assert [name for name in below if not shown[name].startswith(f"{tmp_path.resolve()}/.cache/")] == []
    assert shown["HF_HOME"] == "/elsewhere", "what is set already is respected"
    assert (shown["OMP_WAIT_POLICY"], shown["GOMP_SPINCOUNT"], shown["TOKENIZERS_PARALLELISM"]) == ("PASSIVE", "0", "false")

@needs_make
def test_every_install_is_constrained_and_every_target_has_help(tmp_path):
    for f in ("Makefile", "pyproject.toml", "constraints.txt", *LOCKS): shutil.copy(ROOT / f, tmp_path)
    def installs(locked): return [line for line in make("-n", f"LOCKED={locked}", "docs", "bench", "lock", cwd=tmp_path).stdout.splitlines() if "pip install" in line]
    free, locked = installs(""), installs("yes")
    assert len(free) == 5 and all("--constraint constraints.txt" in line and "--no-build-isolation" in line for line in free)
    assert len(locked) == 6 and sum("--require-hashes" in line for line in locked) == 2
    assert all("--require-hashes" in line or "--no-deps" in line or "--constraint" in line for line in locked)
    listed = re.findall(r"^  make ([\w-]+)", make("help", cwd=tmp_path).stdout, flags=re.M)
    assert {"venv", "reports", "test", "test-lower", "lock", "outdated", "docs", "bench", "cluster", "mutants", "test-faults", "notebooks", "reference", "sync", "check-sync", "clean", "help"} == set(listed)

@needs_make
def test_clean_removes_what_was_made_and_nothing_else(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    kept = ["nbs/a.ipynb", "debias_nb/a.py", "results/itvreg/table03.jsonl", "reports/r.md", "tests/t.py", "tools/t.py", "bench/b.py", "mine.txt", "other/__pycache__/x"]
    made = [".venv/bin/python", ".cache/pip/x", "_runs/r/x", "_docs/index.html", "_proc/x", ".pytest_cache/x", "debias_nb/__pycache__/a.pyc", "nbs/.ipynb_checkpoints/a"]
    for f in kept + made:
        (tmp_path / f).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f).touch()
    assert make("clean", cwd=tmp_path).returncode == 0
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == {*kept, "Makefile"}

# The tools, on a project of two notebooks.

def notebook(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    made = [dict(cell_type="code" if kind == "code" else "markdown", id=f"cell{i}", metadata={}, source=source.splitlines(keepends=True),
                 **(dict(outputs=[], execution_count=None) if kind == "code" else {})) for i, (kind, source) in enumerate(cells)]
    nb = dict(cells=made, metadata=dict(kernelspec=dict(display_name="python3", language="python", name="python3")), nbformat=4, nbformat_minor=5)
    path.write_text(json.dumps(nb, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")

@pytest.fixture
def toy(tmp_path):
    text = (ROOT / "settings.ini").read_text("utf-8")
    (tmp_path / "settings.ini").write_text(re.sub(r"^lib_path = .*$", "lib_path = toy", text, flags=re.M), "utf-8")
    notebook(tmp_path / "nbs/00_one.ipynb", ("md", "# One\n\n> First."), ("code", "#| default_exp one"), ("code", "#| export\ndef one(): return 1"), ("code", "one()"))
    notebook(tmp_path / "nbs/01_two.ipynb", ("md", "# Two\n\n> Second."), ("code", "#| default_exp two"), ("code", "#| export\nfrom toy.one import one"))
    sync.mend_library(tmp_path)
    return tmp_path

def test_a_true_library_is_found_true(toy):
    assert {p.name for p in (toy / "toy").glob("*.py")} == {"__init__.py", "_modidx.py", "one.py", "two.py"}
    assert sync.library(toy) == [] and sync.unclean(toy) == []

def test_an_edited_a_missing_and_a_left_over_module_are_found_and_mended(toy):
    (toy / "toy/one.py").write_text((toy / "toy/one.py").read_text().replace("return 1", "return 2"))
    (toy / "nbs/01_two.ipynb").write_text((toy / "nbs/01_two.ipynb").read_text().replace("default_exp two", "default_exp zwei"))
    (toy / "toy/mine.py").write_text("x = 1\n")
    found = sync.library(toy)
    assert [f.splitlines()[0] for f in found] == ["toy/_modidx.py: differs", "toy/mine.py: no notebook exports it", "toy/one.py: differs",
                                                  "toy/two.py: no notebook exports it", "toy/zwei.py: missing"]
    assert "-def one(): return 2" in found[2] and "+def one(): return 1" in found[2]
    sync.mend_library(toy)
    assert sync.library(toy)[-1] == "toy/mine.py: no notebook exports it" and (toy / "toy/zwei.py").exists() and not (toy / "toy/two.py").exists()
    (toy / "toy/mine.py").unlink() # what was written by hand is left to whoever wrote it
    sync.mend_library(toy)
    assert sync.library(toy) == []

def test_unclean_notebooks_are_found_and_mended_and_keep_their_tags(toy):
    path = toy / "nbs/00_one.ipynb"
    nb = json.loads(path.read_text())
    nb["cells"][3] |= dict(execution_count=7, metadata=dict(tags=["parameters"], scrolled=True), outputs=[dict(output_type="stream", name="stdout", text=["1\n"])])
    path.write_text(json.dumps(nb))
    identity = nb["cells"][3]["id"]
    assert sync.unclean(toy) == ["nbs/00_one.ipynb: holds execution counts", f"nbs/00_one.ipynb: cell 3 ({identity}): its output belongs to another source"]
    sync.mend_notebooks(toy)
    mended = json.loads(path.read_text())["cells"][3]
    assert (mended["execution_count"], mended["metadata"]) == (None, {"tags": ["parameters"]}) and mended["outputs"], "outputs stay"
    assert sync.unclean(toy) == [f"nbs/00_one.ipynb: cell 3 ({identity}): its output belongs to another source"]

def test_folders_are_compared_byte_for_byte(tmp_path):
    for side, content in (("have", b"a\n"), ("want", b"a \n")):
        (tmp_path / side / "sub").mkdir(parents=True)
        (tmp_path / side / "sub/same").write_bytes(b"same")
        (tmp_path / side / "differs").write_bytes(content)
        (tmp_path / side / f"only_{side}").touch()
    found = [f.splitlines()[0] for f in sync.compared("reports", tmp_path / "have", tmp_path / "want", "no result gives it")]
    assert sync.compared("reports", tmp_path / "have", tmp_path / "nowhere", "") == ["reports: nothing was made to compare it with"]
    assert found == ["reports/differs: differs", "reports/only_have: no result gives it", "reports/only_want: missing"]

def test_a_check_that_fails_has_found_that():
    def broken(root): raise RuntimeError("no such command")
    assert sync.found_by(broken) == ["RuntimeError: no such command"]

def test_readme_is_the_run_index_without_its_hidden_cells(toy):
    notebook(toy / "nbs/index.ipynb", ("md", "# Toy\n\n> See [one](00_one.ipynb) and [settings](../settings.ini#x), not `](this)`."), ("code", "#| hide\nx = 41"),
             ("code", "#| eval: true\nx + 1"), ("code", "#| echo: false\nprint('shown')"), ("code", "#| eval: false\nraise SystemExit"),
             ("code", "#| echo: false\nfrom IPython.display import Markdown\nMarkdown('a table of [pages](../settings.ini)')"))
    text = readme.readme(toy)
    assert "a table of [pages](settings.ini)" in text, "what code shows is seen from the root, too"
    assert "[one](nbs/00_one.ipynb)" in text and "[settings](settings.ini#x)" in text and "`](this)`" in text
    assert "```python\nx + 1\n```\n\n    42\n" in text, "run with the hidden cell, shown without it"
    assert "41" not in text and "#|" not in text and "print" not in text and "    shown" in text
    assert readme.difference(toy)[2:], "there is no README.md yet"
    (toy / "README.md").write_text(text, "utf-8")
    assert readme.difference(toy) == []

def test_readme_refuses_a_link_to_nowhere_and_a_failing_notebook(toy):
    notebook(toy / "nbs/index.ipynb", ("md", "# Toy\n\nSee [nothing](nothing.ipynb)."))
    with pytest.raises(SystemExit, match="nbs/index.ipynb: a link leads to nbs/nothing.ipynb"): readme.readme(toy)
    notebook(toy / "nbs/index.ipynb", ("md", "# Toy"), ("code", "1 / 0"))
    with pytest.raises(RuntimeError, match=r"(?s)nbs/index.ipynb: .*ZeroDivisionError"): readme.readme(toy)

def test_code_is_left_alone_by_what_rewrites_text():
    text = "[a](b) `[a](b)`\n\n```python\nd = {'[a](b)': 1}\n```\n\n![p](q.png)"
    assert relink(text, str.upper) == text.replace("[a](b) `", "[a](B) `").replace("q.png", "Q.PNG")
    assert outside_code("a", lambda m: "x", "a `a` a") == "x `a` x"
    assert local("../x/y.md#z", "nbs/papers") == ("nbs/x/y.md", "#z") and local("https://example.org", "nbs") is None and local("#part", "nbs") is None

def test_flags_are_read_as_nbdev_reads_them():
    cell = nbformat.v4.new_code_cell("#| export\n#| eval: false\nx = 1 # | no")
    assert flags(cell) == {"export": "", "eval": "false"}

def test_pages_link_to_pages_and_draw_formulas():
    docs = pytest.importorskip("docs", reason="the docs extra is not installed")
    site = settings(ROOT)["doc_host"] + settings(ROOT)["doc_baseurl"]
    names = {"nbs/00_config.ipynb": "config.md", "nbs/papers/itvreg/table03.ipynb": "papers/itvreg/table03.md"}
    resolve = docs.resolver("nbs/papers/itvreg/table03.ipynb", names, {"config.md": {"runconfig"}})
    assert resolve(f"{site}/config.html#runconfig.id") == "../../config.md#runconfig", "a method is shown with its class"
    assert resolve(f"{site}/config.html#_hidden") == resolve("../../00_config.ipynb") == "../../config.md"
    assert resolve("../../../LICENSE") == f"{settings(ROOT)['git_url']}/blob/main/LICENSE" and resolve("https://example.org") == "https://example.org"
    with pytest.raises(SystemExit, match="nbs/nowhere.md, which does not exist"): resolve("../../nowhere.md")
    assert docs.symbol_heading("---\n\n### RunConfig\n\n### Two words\n") == "---\n\n### RunConfig { #runconfig }\n\n### Two words\n"
    drawn = docs.with_mathml(r"a $\lambda_1$, `$x$`, 5$ and $$x^2$$")
    assert drawn.count("<math") == 2 and "&#955;" in drawn.replace("&#x003BB;", "&#955;") and "`$x$`, 5$" in drawn and "$$" not in drawn
