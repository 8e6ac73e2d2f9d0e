"Run records: what is one, how one is written and read, and what is published."
import json
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from debias_nb import files
from debias_nb.settings import EncoderConfig, WorldConfig
from debias_nb.runs.config import OWN_PROFILE, RunConfig
from debias_nb.runs.settings import CorpusConfig, PairMethod, PairTraining
from debias_nb.runs import origin
from debias_nb.runs.publish import publish, unfounded
from debias_nb.runs.records import Store, TrainingFailed, comparable, failed_record, latest, make_record
from debias_nb.runs.runner import run_or_load
from debias_nb.runs.schema import RecordError, encode

CONFIG = RunConfig(
    paper="itvreg", experiment="demo", profile="small",
    encoder=EncoderConfig(name="minilm", kind="transformer"), corpus=CorpusConfig(name="quora"),
    method=PairMethod(name="ERM"), training=PairTraining(learning_rate=1e-4, epochs=1, batch_size=2),
    evaluate=("quora",),
)
PLACE = "studies/itvreg/demo.small"
PACKAGE = str(Path(__file__).parents[2])


def finish(config, auc=.5, **changes):
    start = origin.Start(time.monotonic() - 90, datetime.now(timezone.utc) - timedelta(seconds=90))
    fields = dict(start=start, data={}, encoder={"name": "minilm"}, device="cpu", dtype="fp32", peak_memory=1, curve=[])
    return make_record(config, {"quora": {"auc": auc}}, **fields | changes)


def with_seed(seed):
    return CONFIG.model_copy(update={"seed": seed})


@cache
def base():
    "Made once: a record asks git and the system where it is made."
    return finish(CONFIG)


TIME = "2026-01-31T12:00:00+00:00"


def small(i, **changes):
    "The record of the run with seed i, the same each time."
    run = with_seed(i)
    names = {"id": run.id, "seed": i, "config": run.model_dump(mode="json")}
    constants = {"started": TIME, "finished": TIME, "environment": {"commit": None, "dirty": None}, "extra": {"ü": i}}
    return base() | names | constants | changes


def seeds_in(store):
    "Of the records of a folder in which all is well."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return sorted(record["seed"] for record in store.all())


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records")


# writers that race, die, or find no room

SPAWN = multiprocessing.get_context("spawn")


def write_many(folder, first, barrier):
    barrier.wait()
    for i in [*range(first, first + 60), *range(5)]: # some that all write
        Store(folder).append(small(i, curve=list(range(2000))))


def test_concurrent_processes_lose_nothing_and_readers_see_whole_records(store):
    barrier = SPAWN.Barrier(4)
    workers = [SPAWN.Process(target=write_many, args=(store.folder, 1000 * k, barrier)) for k in range(1, 4)]
    for worker in workers:
        worker.start()
    barrier.wait()
    while any(worker.is_alive() for worker in workers):
        seeds_in(store)
    assert [worker.exitcode for worker in workers] == [0] * 3
    assert seeds_in(store) == [*range(5), *(1000 * k + i for k in range(1, 4) for i in range(60))]


def child(code, *args):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], env=os.environ | {"PYTHONPATH": PACKAGE})


CLAIM = """
import sys
from debias_nb.runs.records import Store

with Store(sys.argv[1]).claimed("a run") as mine:
    sys.exit(mine)
"""


def test_a_run_is_claimed_by_one_process_at_a_time(store):
    with store.claimed("a run") as mine:
        assert mine
        assert child(CLAIM, store.folder).wait(60) == 0, "not claimed"
    assert child(CLAIM, store.folder).wait(60) == 1, "claimed"


def die_at(step): # how many lines of `write_whole` are executed before
    left = [step]

    def trace(frame, event, arg):
        left[0] -= event == "line"
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(lambda frame, event, arg: trace if frame.f_code is files.write_whole.__code__ else None)


@pytest.mark.parametrize("old", [None, .25], ids=["a first record", "a newer record"])
def test_a_writer_killed_at_any_step_leaves_the_old_record_or_the_new_one(store, old):
    values = []
    code = -signal.SIGKILL
    while code:
        if old is None:
            store.file(small(3)).unlink(missing_ok=True)
        else:
            store.append(metric(old))
        pid = os.fork()
        if pid == 0:
            die_at(len(values))
            store.append(metric(.75))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, -signal.SIGKILL)
        values += [next((record["metrics"]["quora"]["auc"] for record in store.all()), None)]
    count = values.count(old)
    assert values == [old] * count + [.75] * (len(values) - count), "from some step on the new one"
    assert 5 < count < len(values)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file")
    with store.claimed("a run") as mine:
        assert mine and store.find(with_seed(0)) is None
    with pytest.raises(RecordError, match="itvreg/demo.small/.*json could not be written: Not a directory"):
        store.append(small(0))


# what is no record


def metric(value):
    return small(3, metrics={"quora": {"auc": value}})


def setting(**changes):
    return small(3, config=small(3)["config"] | changes)


def text(record):
    return json.dumps(record).encode()


ODD = [ # what a file holds, and the beginning of what is said
    (b"", "damaged"),
    (b"[" * 100_000, "damaged"),
    (b"17\n", ""),
    (text(small(3, status="almost")), "Input tag 'almost' found using 'status'"),
    (text(metric(math.nan)), "damaged"),
    (text(metric(10**400)), "metrics.quora.auc: "),
    (text(metric(7.)), "metrics: quora: auc is 7, "),
    (text(small(3, environment={"commit": "../../x", "dirty": False})), "environment.commit: "),
    (text(setting(paper="../../x")), "config.paper: "),
    (text(setting(seed=7)), "its configuration is that of demo-small-minilm-quora-erm-s7"),
    (text(small(3, seed=4)), "seed: 4, "),
    (text(small(3, peak_memory_bytes=10**19)), "peak_memory_bytes: "),
    (text(small(3, started="yesterday")), "started: Invalid isoformat string: 'yesterday'"),
    (text(small(3, started="2026-01-31T12:00:00")), "started: a time without its zone"),
    (encode(metric(.5)).replace(b'"auc": 0.5', b'"auc": 0.6'),
     "changed since it was written: its checksum does not fit"),
    (text(small(4)), "the record in it belongs into "),
    *((text(small(3, schema=number)), "schema: ") for number in (True, 10)),
    (text(small(3, environment={"commit": "a" * 40, "dirty": None})),
     "environment: `commit` and `dirty` are known together"),
    (text(small(3))[:-1] + b', "seconds": 3.0}', "damaged (the key 'seconds' occurs twice)"),
]


@pytest.mark.parametrize("bad, says", ODD)
def test_an_odd_file_is_named_and_stays_and_the_others_are_read(store, bad, says):
    for seed in (1, 3):
        store.append(small(seed))
    path = store.file(small(3))
    path.write_bytes(bad)
    with pytest.warns(UserWarning) as log:
        assert store.all() == [small(1)] and store.find(with_seed(3)) is None
        rows, left_out = store.publish(PLACE)
    assert str(log[0].message).startswith(f"{path} is left out: {says}"), str(log[0].message)
    assert rows == 1 and left_out[0].startswith(f"{path} is left out, and stays: {says}")
    assert path.read_bytes() == bad


def trial(**changes):
    "The record of a trial of `compare`."
    run = with_seed(3).model_copy(update={"profile": OWN_PROFILE})
    return small(3) | {"id": run.id, "config": run.model_dump(mode="json")} | changes


@pytest.mark.parametrize("change", [{"metrics": {"quora": {"auc": .9}}}, {"extra": {}}])
def test_a_trial_that_was_changed_is_left_out_whatever_its_numbers(store, change):
    "Also where its checksum was taken off."
    path = store.file(store.append(trial()))
    assert store.all() == [trial()]
    content = json.loads(path.read_text())
    no_checksum = {name: value for name, value in content.items() if name != "checksum"}
    for variant in (content | change, no_checksum | change):
        path.write_bytes(text(variant))
        with pytest.warns(UserWarning, match="changed since it was written"):
            assert store.all() == []


def test_a_record_of_a_version_without_checksums_is_read(store):
    path = store.file(store.append(small(3)))
    path.write_bytes(text(small(3)))
    assert store.all() == [small(3)]


@pytest.mark.parametrize("field, changes", {
    r"metrics\.quora\.auc: ": {"metrics": {"quora": {"auc": math.nan}}},
    "extra: ": {"extra": {"half a character": "\ud83d"}},
    "peak_memory_bytes: ": {"peak_memory_bytes": 10**19},
    r"config\.paper: ": {"config": CONFIG.model_copy(update={"paper": "../x"}).model_dump(mode="json")},
}.items())
def test_what_is_no_record_is_not_written(store, field, changes):
    with pytest.raises(RecordError, match=field):
        store.append(small(0, **changes))
    assert not store.folder.exists()


# runs


def test_a_run_is_made_once_and_made_again_when_it_is_asked_for(store):
    calls = []

    def train(config):
        calls.append(config.seed)
        return finish(config, config.seed / 10)

    first = [run_or_load(with_seed(s), train, store) for s in range(3)]
    assert [run_or_load(with_seed(s), train, store) for s in range(3)] == first
    assert calls == [0, 1, 2]
    other_config = CONFIG.model_copy(update={"experiment": "other"})
    run_or_load(other_config, train, store)
    assert store.find(other_config)["config"]["experiment"] == "other" and len(store.places()) == 2
    run_or_load(with_seed(1), lambda config: finish(config, .75), store, fresh=True)
    assert store.find(with_seed(1))["metrics"] == {"quora": {"auc": .75}}

    def interrupt(config):
        raise KeyboardInterrupt

    def diverges(config):
        raise TrainingFailed(3, "the loss is nan")

    for train, error in ((interrupt, KeyboardInterrupt), (diverges, TrainingFailed),
                         (partial(finish, auc=math.nan), TrainingFailed)):
        with pytest.raises(error):
            run_or_load(CONFIG, train, store, fresh=True)
        assert store.find(CONFIG) == first[0], "the newest that finished"
    for wrong in (failed_record(CONFIG, origin.Start(), "x"), small(7)):
        with pytest.raises(RecordError, match=CONFIG.id):
            run_or_load(CONFIG, lambda config, wrong=wrong: wrong, store, fresh=True)


def test_the_newest_finished_record_counts_and_a_failure_where_none_finished():
    for stati, newest in (("finished finished failed", 1), ("failed finished", 1), ("finished failed failed", 0),
                          ("failed failed", 1)):
        records = [{"id": "a", "status": status, "n": n} for n, status in enumerate(stati.split())]
        assert latest(records) == {"a": records[newest]}, stati


def test_a_record_has_the_whole_configuration_its_time_all_digits_of_metrics_and_five_of_replicates():
    record = json.loads(encode(finish(CONFIG, 1 / 3, replicates={"quora": {"auc": np.array([1 / 3, 2e-9 / 3])}})))
    assert record["metrics"]["quora"]["auc"] == 1 / 3
    assert record["replicates"]["quora"]["auc"] == [.33333, 6.6667e-10]
    assert record["config"].keys() == RunConfig.model_fields.keys()
    assert RunConfig.model_validate(record["config"]) == CONFIG
    times = [datetime.fromisoformat(record[name]) for name in ("started", "finished")]
    assert abs(times[1] - times[0] - timedelta(seconds=90)) < timedelta(seconds=5)
    assert 90 <= record["seconds"] < 95


def test_repeats_are_compared_to_the_last_digit_without_times_and_machine():
    record = small(0, curve={"loss": [1., .5], "seconds": 3.})
    elsewhere = {"seconds": 9., "device": "another", "environment": {}, "curve": {"loss": [1., .5], "seconds": 7.}}
    assert comparable(record | elsewhere) == comparable(record)
    assert comparable(metric(math.nextafter(.5, 1))) != comparable(metric(.5))


# what is published


def in_world(seed):
    run = CONFIG.model_copy(update={"eval_world": WorldConfig(seed=seed)})
    questions = {"extra": {"questions": {"iid": [.5]}, "training": {}}, "replicates": {"quora": {"auc": [.1]}}}
    return small(0) | {"id": run.id, "seed": 0, "config": run.model_dump(mode="json")} | questions


@pytest.fixture
def parquet(store):
    "A published file of two runs."
    for record in (small(0, replicates={"quora": {"auc": [.1, 1e-7, .33333]}}), small(1)):
        store.append(record)
    store.publish(PLACE)
    return store.folder / "studies/itvreg/demo.small.parquet"


def test_what_is_published_is_the_same_to_the_last_digit_and_records_are_added_to_it(store, parquet):
    first, second = in_world(0), in_world(3)
    failure = failed_record(with_seed(9), origin.Start(), "the loss is nan\nin two lines", 3)
    newer = small(1, metrics={"quora": {"auc": .75}})
    assert list(parquet.parent.iterdir()) == [parquet]
    for record in (first, second, failure, newer, small(2)):
        store.append(record)
    assert store.find(with_seed(1)) == newer, "before it is published, too"
    assert store.publish(PLACE) == (6, [])
    records = {record["id"]: record for record in store.all()}
    assert store.find(with_seed(1)) == newer
    assert records[small(0)["id"]] == small(0, replicates={"quora": {"auc": [.1, 1e-7, .33333]}})
    assert records[first["id"]] == first and records[failure["id"]] == failure and records[small(2)["id"]] == small(2)
    assert records[second["id"]] == second | {"replicates": {}, "extra": {"training": {}}}


def test_an_experiment_may_publish_the_first_resamples_of_each_test_alone(store):
    resamples = {"quora": {"auc": [.3, .1, .2]}, "news": {"auc": [.4]}}
    store.append(small(3, replicates=resamples))
    for _ in range(2): # again, the same
        store.publish(PLACE, resamples=2)
        record = store.find(with_seed(3))
        assert record["replicates"] == {"quora": {"auc": [.3, .1]}, "news": {"auc": [.4]}}
        assert record | {"replicates": resamples} == small(3, replicates=resamples), "all else is as it was"
        store.append(small(4))


def test_a_flipped_bit_never_reads_as_other_or_fewer_records(store, parquet):
    good = parquet.read_bytes()
    originals = store.all()
    draw = random.Random(0)
    refusals = 0
    for _ in range(400):
        place = draw.randrange(len(good))
        parquet.write_bytes(good[:place] + bytes([good[place] ^ 1 << draw.randrange(8)]) + good[place + 1:])
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            records = store.records(PLACE)
        if records != originals:
            refusals += 1
            assert all(record in originals for record in records), place
            assert str(log[0].message).startswith(f"{parquet}"), place
            with pytest.raises(RecordError, match="nothing is added"):
                store.publish(PLACE)
    assert refusals > 50


def rewritten(path, name, change):
    "The same file with other values in a column, and checksums that fit."
    table = pq.read_table(path)
    values = [change(n, value) for n, value in enumerate(table[name].to_pylist(), 1)]
    table = table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))
    pq.write_table(table, path, write_page_checksum=True)


@pytest.mark.parametrize("column, value, says", [
    ("metrics", '{"quora": {"auc": 1' + 400 * "0" + "}}", "metrics.quora.auc: "),
    ("metrics", '{"quora": {"auc": 0.5}},"error":"x"', "metrics: damaged"),
    ("config", "{", "config: damaged"),
    ("config", json.dumps(small(7)["config"]), "its configuration is that of "),
    ("id", small(0)["id"], f"{small(0)['id']} stands in several rows"),
    ("seed", 7, "seed: 7"),
    ("seconds", math.inf, "seconds: "),
    ("dtype", "<script>", "dtype: "),
])
def test_a_row_that_is_no_record_is_named_and_nothing_is_added_to_its_file(store, parquet, column, value, says):
    first = store.all()[0]
    rewritten(parquet, column, lambda n, old: value if n == 2 else old)
    with pytest.warns(UserWarning) as log:
        assert [record for record in store.all() if record != first] == []
    assert f": row 2 is left out: {says}" in str(log[-1].message), str(log[-1].message)
    with pytest.raises(RecordError, match="nothing is added"):
        store.publish(PLACE)


def test_a_file_of_another_schema_program_or_name_is_named(store, parquet):
    table = pq.read_table(parquet)
    metadata = table.schema.metadata
    for variant, says in (
        (table.drop_columns(["curve"]), "another schema: curve"),
        (table.replace_schema_metadata({}), "another program, or another version"),
        (table.replace_schema_metadata({**metadata, b"debias-nb": b'{"schema": 2}'}),
         "another program, or another version"),
        (table.replace_schema_metadata({**metadata, b"debias-nb": b'{"schema": 12}'}),
         "another program, or another version"),
    ):
        pq.write_table(variant, parquet)
        with pytest.warns(UserWarning, match=f"demo.small.parquet is left out: {says}"):
            assert store.all() == []
    pq.write_table(table.replace_schema_metadata({"debias-nb": '{"schema": 1, "rows": 2, "columns": {}}'}), parquet)
    assert len(store.all()) == 2, "as earlier versions wrote them"
    parquet.rename(parquet.with_name("a.b.c.small.parquet"))
    with pytest.warns(UserWarning, match="a.b.c.small is not called"):
        assert store.all() == []


@pytest.fixture
def clone(tmp_path):
    """A clone in which a run was named, made and published, and a folder for its records.

    Its history: a commit before, that
    of the run, and a newer one that names it, too."""
    config = tmp_path / "experiments/studies/itvreg/demo.yaml"
    config.parent.mkdir(parents=True)
    settings = CONFIG.model_dump(mode="json", exclude_defaults=True)
    block = {"encoders": ["minilm"], "corpora": [settings["corpus"]], "methods": ["ERM"], "seeds": [0],
             "evaluate": ["quora"]}
    content = {"title": "A demonstration", "scale": "made up", "encoders": [settings["encoder"]],
               "methods": [settings["method"]]}
    for seeds in ([1], [0], [0, 2]):
        block["seeds"] = seeds
        content["blocks"] = [block | {"training": settings["training"]}]
        config.write_text(json.dumps({"small": content}))
        commit(tmp_path)
    earlier, of_run, newer = reversed(origin.history(tmp_path))
    store = Store(tmp_path / "experiments")
    store.append(finish(CONFIG) | {"environment": {"commit": of_run, "dirty": False}})
    store.publish(PLACE)
    return tmp_path, earlier, newer


def found_in(root):
    return [message.removeprefix(f"{root}/experiments/") for message in unfounded(root, origin.history(root))]


PARQUET = "studies/itvreg/demo.small.parquet"


def test_a_published_file_that_anything_but_publishing_changes_is_named(clone):
    root, _, _ = clone
    path = root / "experiments" / PARQUET
    assert found_in(root) == []
    rewritten(path, "metrics", lambda n, old: old.replace("0.5", "0.51"))
    messages = [f"{PARQUET}: not the file that was published, whose hash stands in sha256.txt"]
    assert found_in(root) == messages
    with pytest.raises(RecordError, match=f"nothing is published\n.*{messages[0]}"):
        publish("itvreg/demo", "small", root)
    path.rename(path.with_name("other.small.parquet"))
    assert len(found_in(root)) == 3, "one that is gone, one that is new, and what is in it was never named"


def test_records_of_a_machine_are_added_where_none_says_otherwise(clone, monkeypatch):
    root, _, _ = clone
    mine = Store(root / "_runs")
    monkeypatch.setattr("debias_nb.runs.publish.own_store", lambda: mine)
    record, = Store(root / "experiments").all()
    variant = record | {"metrics": {"quora": {"auc": .75}}}
    mine.append(record)
    assert publish("itvreg/demo", "small", root) == ([], [record["id"]])
    mine.append(variant)
    with pytest.raises(RecordError, match="another record is there; --replace takes this one"):
        publish("itvreg/demo", "small", root)
    assert publish("itvreg/demo", "small", root, replace=True) == ([record["id"]], [])
    assert Store(root / "experiments").find(CONFIG) == variant
    mine.append(record | {"environment": {"commit": "b" * 40, "dirty": False}, "metrics": {"quora": {"auc": .8}}})
    with pytest.raises(RecordError, match="its records name the commit bbbbbbbb"):
        publish("itvreg/demo", "small", root, replace=True)


def test_a_record_of_another_commit_or_an_early_date_is_named_even_where_hashes_fit(clone):
    root, earlier, newer = clone
    path = root / "experiments" / PARQUET
    good = path.read_bytes()
    tale = origin.history(root) | {newer: origin.history(root)[newer] + 3600}

    def messages(column, change):
        path.write_bytes(good)
        rewritten(path, column, lambda n, old: change(old))
        digest = files.sha256_file(path)
        (root / "experiments/sha256.txt").write_text(f"{digest}  {PARQUET}\n")
        return [message.partition(".parquet: ")[2] for message in unfounded(root, tale)]

    def state(commit, dirty=False):
        return lambda old: json.dumps({"commit": commit, "dirty": dirty})

    assert messages("environment", str) == []
    assert messages("environment", state(earlier)) == [
        f"1 of 1 records are of runs that the configuration did not name at their commit, {earlier[:8]}"]
    assert messages("environment", state(newer)) == [f"1 of 1 records ended before their commit, {newer[:8]}, was made"]
    assert messages("environment", state("b" * 40)) == [
        "1 of 1 records name the commit bbbbbbbb, which is not in this history"]
    assert messages("environment", state(newer, True)) == [
        "1 of 1 records were made with changes that stand in no commit"]
    assert "ended before their commit" in messages("started", lambda old: old.replace("202", "201"))[0]
    for column, value in [("started", "yesterday"), ("id", None), ("environment", "{"), ("environment", "{}"),
                          ("seconds", math.nan)]:
        (said,) = messages(column, lambda old, value=value: value)
        assert said.startswith(f"row 1: {column}"), (column, value, said)
    path.write_bytes(good[:100])
    assert any("damaged, or no Parquet file" in message for message in unfounded(root, tale))


@pytest.mark.parametrize("line", ["", f"{64 * 'g'}  {PARQUET}", "\xff", 2])
def test_a_damaged_line_of_hashes_is_named(clone, line):
    root, _, _ = clone
    path = root / "experiments/sha256.txt"
    first = path.read_text()
    path.write_bytes(f"{first}{first if line == 2 else line}\n".encode("latin-1"))
    with pytest.raises(RecordError, match="sha256.txt:2: a sha256 and the name of a file are expected"):
        found_in(root)


def test_a_record_says_when_its_run_began_and_with_which_code(store, monkeypatch):
    began = {"commit": "a" * 40, "dirty": False}

    def stops(config):
        monkeypatch.setattr(origin, "git_state", lambda: {"commit": "b" * 40, "dirty": True})
        raise TrainingFailed(2, "the loss is nan")

    monkeypatch.setattr(origin, "git_state", lambda: began)
    start = origin.Start()
    with pytest.raises(TrainingFailed):
        run_or_load(CONFIG, stops, store)
    [failure] = store.all()
    for record in (failure, finish(CONFIG, start=start)):
        assert {name: record["environment"][name] for name in began} == began
        assert abs(datetime.fromisoformat(record["started"]) - start.time) < timedelta(seconds=60)


# where a run was made


def commit(folder):
    for step in ("init", "add .", "-c user.name=x -c user.email=x@example.org commit --no-verify --no-gpg-sign "
                                  "-m first"):
        origin.git(folder, *step.split())


def test_git_state_is_of_this_project_and_of_its_code_alone(tmp_path, monkeypatch):
    no_state = {"commit": None, "dirty": None}
    assert origin.git_state(tmp_path) == no_state and origin.history(tmp_path) is None
    code = ["debias_nb/a.py", "experiments/a.yaml", "experiments/printed/a.yaml", "requirements/cpu.lock",
            "pyproject.toml"]
    names = [*code, "nbs/papers/a.ipynb", "README.md"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    commit(tmp_path)
    clean = origin.git_state(tmp_path)
    assert set(origin.history(tmp_path)) == {clean["commit"]} and clean["dirty"] is False
    assert origin.git_state(
        tmp_path / "nbs") == no_state, "a repository that merely surrounds the project says nothing of it"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nbs"))
    assert origin.git_state(tmp_path) == clean, "inside a hook"
    dirty = []
    for name in names:
        (tmp_path / name).write_text("2")
        if origin.git_state(tmp_path)["dirty"]:
            dirty.append(name)
        (tmp_path / name).write_text("1")
    assert dirty == code, "a notebook that was opened, or executed, is the same code"
