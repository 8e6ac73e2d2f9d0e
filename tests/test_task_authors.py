"Runs on authors: parts of a corpus, who is found and who is not, settings chosen on validation texts alone, records that repeat, bad input."
import json, os, subprocess, sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from debias_nb.repro.details import leak_rows
from debias_nb.repro.tasks import authors
from debias_nb.arr import ARRLoss, author_ids
from debias_nb.repro.tasks.authors import (author_loss, author_split, beginning, counts, evaluate_authors, excerpt, fit_authors, leaks, learned_table, settings, topic_rows, tuned)
from debias_nb.data.authors import Texts, query_target
from debias_nb.config import AuthorsWorldConfig, ConfigError, EncoderConfig
from debias_nb.repro.config import AuthorsConfig, CorpusConfig, MethodConfig, RunConfig, SplitConfig, TrainConfig
from debias_nb.encoders import embed, tokenise
from debias_nb.repro.runner import absent, dry_step, execute, run_all
from debias_nb.repro.records import Store, TrainingFailed, comparable
from debias_nb.data.registry import MissingData

ROOT = Path(__file__).parents[1]
WORLD = AuthorsWorldConfig(name="authors", authors=40, test_authors=20, tokens=40)
CORPUS = CorpusConfig(name="authors", task="authors", world=WORLD, split=SplitConfig())
ENCODER = EncoderConfig(name="learned", kind="static", embedding=16, max_length=80)
TRAINING = TrainConfig(loss="authors", temperature=.1, learning_rate=1e-2, epochs=2, batch_size=16, further_temperatures=[.5])
CL, ARR = MethodConfig(name="CL", authors=AuthorsConfig()), MethodConfig(name="CL + ARR", authors=AuthorsConfig(student="arr"))
torch.set_num_threads(1)

def run_of(method, **changes):
    own = dict(corpus=CORPUS, training=TRAINING) if method.trained else dict(eval_corpus=CORPUS)
    return RunConfig(**(dict(paper="arr", experiment="demo", profile="planted", encoder=ENCODER, method=method, evaluate=("cross", "iid"), **own) | changes))

# ---- parts

def test_validation_across_topics_shares_neither_authors_nor_topics():
    inside, across = author_split(CORPUS), author_split(CORPUS.model_copy(update=dict(split=SplitConfig(validation="across"))))
    assert set(inside.validation.author) <= set(inside.train.author) and set(inside.validation.topic) <= set(inside.train.topic)
    assert not set(across.validation.author) & set(across.train.author) and not set(across.validation.topic) & set(across.train.topic)
    assert set(across.tests["iid"].topic) <= set(across.train.topic) and len(across.tests["iid"]) < len(inside.tests["iid"]) and across.tests["cross"].fingerprint == inside.tests["cross"].fingerprint
    assert set(across.train.text) <= set(inside.train.text), "nothing that was picked for validation or left out comes back"

def test_another_seed_of_the_split_is_another_split():
    again, other = (author_split.__wrapped__(CORPUS.model_copy(update=dict(split=SplitConfig(seed=s)))) for s in (0, 1))
    assert again.train.fingerprint == author_split(CORPUS).train.fingerprint != other.train.fingerprint

def published(folder, name, rows):
    (folder / name).mkdir(parents=True)
    pairs = [(i, a, b) for i, (a, b) in enumerate(zip(rows[::2], rows[1::2]))]
    for file, line in (("pairs.jsonl", lambda i, a, b: dict(id=str(i), fandoms=[a[1], b[1]], pair=[a[2], b[2]])), ("truth.jsonl", lambda i, a, b: dict(id=str(i), same=a[0] == b[0], authors=[a[0], b[0]]))):
        (folder / name / file).write_text("".join(json.dumps(line(*p)) + "\n" for p in pairs))

def test_parts_that_were_published_apart(tmp_path, monkeypatch):
    for name, who in (("pan20_train", "ab"), ("pan20_test", "cd"), ("pan21_test", "ef")):
        published(tmp_path, name, [(a, f"fandom {name} {i}", f"{a} wrote {i} in {name}") for a in who for i in range(2)])
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path))
    corpus = CorpusConfig(name="pan20_train", task="authors", split=SplitConfig(scheme="published"))
    split = author_split(corpus)
    assert set(split.train.author) == {"a", "b"} and set(split.validation.author) == {"c", "d"} and set(split.tests["cross"].author) == {"e", "f"} and "iid" not in split.tests
    with pytest.raises(ConfigError, match="was not published in parts"): author_split(corpus.model_copy(update=dict(name="newsgroups20_authors"))) if (Path(os.environ["DEBIAS_NB_DATA"]) / "newsgroups20_authors").is_dir() else author_split(CorpusConfig(name="pan20_test", task="authors", split=SplitConfig(scheme="published")))

def test_data_that_is_not_here_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("DEBIAS_NB_DATA", str(tmp_path)); monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    corpus = CorpusConfig(name="reddit_pushshift", task="authors", split=SplitConfig())
    with pytest.raises(MissingData, match="reddit_pushshift"): author_split(corpus)
    assert "reddit_pushshift" in absent(run_of(CL, corpus=corpus, eval_world=None))
    assert "no-such" in absent(run_of(CL, encoder=EncoderConfig(name="no-such", kind="static")))
    assert absent(run_of(MethodConfig(name="BOW", trained=False, authors=AuthorsConfig(counted="bow")), encoder=EncoderConfig(name="no-such", kind="static"))) is None, "counting words needs no encoder"

def test_a_corpus_nobody_knows():
    with pytest.raises(ConfigError, match="did you mean 'reddit_tldr_users'"): author_split(CorpusConfig(name="reddit_tldr_user", task="authors", split=SplitConfig()))

# ---- who is found

def shelf(authors, topics=None): return Texts("shelf", list(authors), list(topics) if topics else None, [f"text {i}" for i in range(len(authors))])

def test_the_metrics_by_hand():
    texts = shelf("aabbccde", "xyxyzzxy")
    halves = query_target(texts, 3)
    rows = torch.eye(8)
    for q, t in zip(halves.queries, halves.relevance().toarray()): rows[halves.targets[np.flatnonzero(t)[0]]] = rows[q]
    found = evaluate_authors(rows, texts, halves)
    assert found.metrics["r8"] == 1 == found.metrics["mrr"] and found.metrics["queries"] == 3 and found.metrics["targets"] == 5
    assert evaluate_authors(torch.roll(rows, 1, 1), texts, halves).metrics == found.metrics, "a rotation changes nothing"

@pytest.mark.parametrize("order", [np.arange(30), np.arange(30)[::-1], np.random.default_rng(0).permutation(30)])
def test_the_order_of_the_texts_cannot_help_a_constant(order):
    texts = shelf([f"a{i % 10}" for i in order], [f"t{i % 3}" for i in order])
    found = evaluate_authors(torch.ones(30, 4) / 2, texts, query_target(texts))
    m = found.metrics["targets"] # two targets of each author, one query
    assert found.metrics["r8"] == pytest.approx(1 - np.prod([(m - 2 - i) / (m - i) for i in range(8)]))

def test_resamples_draw_authors_with_all_their_queries():
    texts = shelf(["many"] * 40 + ["few", "few"] + [f"single {i}" for i in range(20)])
    halves, rows = query_target(texts), torch.zeros(62, 2)
    rows[:40, 0] = rows[40:, 1] = 1
    rows[halves.queries] = torch.tensor([0., 1.]) # all queries of one author go astray together
    found, hit = evaluate_authors(rows, texts, halves, replicates=200), 8 / 21 # the other's target is one of 21 that tie
    assert set(found.replicates["r8"]) == {0., round(hit, 4), round(hit / 21, 4)}, "of 21 queries drawn one by one, a resample would have any number of hits"
    assert np.mean(found.authors) == pytest.approx(found.metrics["r8"], abs=1e-3)

def test_dense_and_sparse_rows_are_the_same():
    texts, rng = shelf([f"a{i % 10}" for i in range(60)], [f"t{i % 7}" for i in range(60)]), np.random.default_rng(1)
    rows = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(60, 12))).float(), dim=1)
    dense, thin = (evaluate_authors(r, texts, query_target(texts)).metrics for r in (rows, sparse.csr_matrix(rows.numpy())))
    assert dense == thin

# ---- training

@pytest.mark.parametrize("method", [AuthorsConfig(), AuthorsConfig(base="mll"), AuthorsConfig(student="arr"), AuthorsConfig(student="arr", variant="released"), AuthorsConfig(gamma=1.), AuthorsConfig(student="corrected", gamma=.5)])
def test_every_method_trains_and_repeats(method):
    a, b = (tuned(CORPUS, ENCODER, TRAINING, method, 3) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(a.model.state_dict().values(), b.model.state_dict().values())) and a.tried == b.tried
    assert not torch.equal(a.model[0].embedding.weight, beginning(ENCODER, CORPUS, 3)[0].embedding.weight)
    assert len(a.tried) == (1 if method.base == "mll" else 2) and (a.teacher is None) == (method.student == "none")

def test_fixed_bias_is_the_released_temperature_of_the_teacher():
    "ARR with B = b is plain self-distillation from a teacher whose cosines are multiplied by 1 - b: the same student, up to rounding."
    split, tokens = author_split(CORPUS), authors._tokens(ENCODER, CORPUS, "train")
    labels, rows, teacher = author_ids(split.train.author), topic_rows(CORPUS), embed(tuned(CORPUS, ENCODER, TRAINING, AuthorsConfig(), 0).model, tokens)
    out = []
    for scale, bias in ((1., .4), (.6, 0.)):
        model = beginning(ENCODER, CORPUS)
        loss = ARRLoss(model, teacher, rows, .1, labels, bias=bias)
        if scale != 1: # a teacher with these cosines off the diagonal: each vector, and something of its own
            n = len(teacher)
            loss.__dict__["teacher"] = torch.cat([scale**.5 * loss.teacher, (1 - scale)**.5 * torch.eye(n)], 1)
        out.append(embed(fit_authors(model, loss, tokens, labels, TRAINING, 2), tokens))
    assert torch.allclose(*out, atol=1e-4)

def test_strength_zero_is_the_base():
    poe, cl = (tuned(CORPUS, ENCODER, TRAINING, AuthorsConfig(gamma=g), 0).model for g in (1e-12, 0.))
    assert torch.allclose(poe[0].embedding.weight, cl[0].embedding.weight, atol=1e-4)

def test_settings_are_chosen_on_validation_texts_alone(monkeypatch):
    asked = []
    plain = authors.evaluate_authors
    monkeypatch.setattr(authors, "evaluate_authors", lambda rows, texts, *a, **k: asked.append(texts.name) or plain(rows, texts, *a, **k))
    done = tuned(CORPUS, ENCODER, TRAINING, AuthorsConfig(), 5)
    assert set(asked) == {"authors validation"} and len(asked) == 2 == len(done.tried)
    best = max(done.tried, key=lambda t: t["r8"])
    assert done.setting == {k: best[k] for k in ("learning_rate", "temperature")}

def test_a_setting_that_diverges_is_noted_and_left(monkeypatch):
    plain = authors.fit_authors
    def fit(model, loss, *a, **k):
        if loss.temperature == .5: raise TrainingFailed(3, "the loss is nan")
        return plain(model, loss, *a, **k)
    monkeypatch.setattr(authors, "fit_authors", fit)
    done = tuned(CORPUS, ENCODER, TRAINING, AuthorsConfig(), 0)
    assert done.setting["temperature"] == .1 and "the loss is nan" in done.tried[1]["failed"]
    with pytest.raises(TrainingFailed, match="step 3"): tuned(CORPUS, ENCODER, TRAINING.model_copy(update=dict(temperature=.5, further_temperatures=())), AuthorsConfig(), 0)

def test_infinite_losses_stop():
    model, labels = beginning(ENCODER, CORPUS), author_ids(author_split(CORPUS).train.author)
    with torch.no_grad(): model[0].embedding.weight[5] = torch.nan
    for base in ("mll", "cl"):
        loss = author_loss(AuthorsConfig(base=base), model, labels, .1)
        with pytest.raises(TrainingFailed, match="step 1"): fit_authors(model, loss, authors._tokens(ENCODER, CORPUS, "train"), labels, TRAINING, 1)

def test_authors_with_one_text_are_not_trained_on():
    texts = author_split(CORPUS).train
    one = texts.take([i for i, a in enumerate(texts.author) if a != texts.author[0] or i == 0])
    model = learned_table(one.text, 8)
    loss = author_loss(AuthorsConfig(), model, author_ids(one.author), .1)
    fit_authors(model, loss, tokenise(model, one.text), author_ids(one.author), TRAINING, 1)
    several = sum(n > 1 for n in Counter(one.author).values())
    assert sum(int(h["pairs"]) for h in loss.history) == 2 * several

def test_what_settings_are_tried():
    t = TRAINING.model_copy(update=dict(further_rates=(.3,)))
    assert settings(t, AuthorsConfig()) == [(.01, .1), (.01, .5), (.3, .1), (.3, .5)] and settings(t, AuthorsConfig(base="mll")) == [(.01, .1), (.3, .1)]

def test_a_student_needs_a_teacher():
    with pytest.raises(ValueError, match="needs the vectors of its teacher"): author_loss(AuthorsConfig(student="arr"), beginning(ENCODER, CORPUS), np.zeros(3, int), .1, lambda: None)

# ---- records

def test_a_record_repeats_in_another_process_and_after_other_runs():
    run = run_of(ARR, seed=3)
    execute(run_of(CL, seed=1))
    here = comparable(execute(run))
    code = "import json, sys\nfrom debias_nb.repro.config import RunConfig\nfrom debias_nb.repro.runner import execute\nprint(json.dumps(execute(RunConfig.model_validate_json(sys.argv[1]))))"
    env = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code, run.model_dump_json()], env=env, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    there = json.loads(done.stdout.splitlines()[-1])
    assert comparable(there) == here and 0 < there["extra"]["history"]["B"] < 1 and there["extra"]["steps"] == there["curve"]["step"][-1]

def test_runs_are_kept_and_loaded(tmp_path):
    runs = [run_of(CL), run_of(MethodConfig(name="Zero-shot", trained=False)), run_of(MethodConfig(name="BOW", trained=False, authors=AuthorsConfig(counted="bow")))]
    first = run_all(runs, Store(tmp_path), workers=1, progress=False)
    assert len(first.trained) == 3 and not run_all(runs, Store(tmp_path), workers=1, progress=False).trained
    kinds = {r["config"]["method"]["name"]: r for r in first.records.values()}
    assert "none" in kinds["BOW"]["encoder"]["fingerprint"] and "questions" not in kinds["BOW"]["extra"] and len(kinds["CL"]["extra"]["questions"]["cross"]) == WORLD.test_authors
    assert set(kinds["CL"]["replicates"]["cross"]) == {"r8", "mrr", "false topic share"} and "tried" in kinds["CL"]["extra"]

def test_planted_style_words_are_the_function_words():
    "A baseline that cannot see the style that there is would be no baseline."
    found = execute(run_of(MethodConfig(name="Function words", trained=False, authors=AuthorsConfig(counted="function words"))))["metrics"]
    chance = 8 / found["cross"]["targets"]
    assert found["cross"]["r8"] > 4 * chance and abs(found["iid"]["false topic share"] - found["iid"]["topic chance"]) < .05

def test_counts_and_cases():
    record = execute(run_of(MethodConfig(name="planted", trained=False), evaluate=("counts",), measure=("cases",)))
    split = author_split(CORPUS)
    assert record["metrics"]["counts"]["Training samples"] == len(split.train) and record["metrics"]["counts"] == counts(CORPUS)
    assert record["extra"]["leaks"] == leaks(CORPUS) and all(l["test topic"] in split.tests["cross"].topic and l["training topic"] in split.train.topic for l in record["extra"]["leaks"])
    assert {"cosine", "shared words", "test", "training"} <= set(leak_rows([record]))

def test_an_excerpt_has_the_most_shared_words():
    texts = ["nothing", "a ship, and far away from it a sail", "the Ship's sail", "ship ship sail here"]
    assert excerpt(texts, ["ship", "sail"], 3) == "ship ship sail" and excerpt(texts, ["ship", "sail"], 12) == "ship, and far away from it a sail" and excerpt(["none of them here"], ["ship"], 2) == "none of"

def test_an_evaluation_set_nobody_knows():
    with pytest.raises(ConfigError, match="no evaluation set 'open'"): execute(run_of(CL, evaluate=("open",)))

@pytest.mark.parametrize("method", [CL, ARR, MethodConfig(name="MLL", authors=AuthorsConfig(base="mll", epochs=9))])
def test_dry_steps(method):
    terms = dry_step(run_of(method, training=TRAINING.model_copy(update=dict(batch_size=64))))
    assert terms["loss"] > 0 and ("B" in terms) == (method is ARR)
