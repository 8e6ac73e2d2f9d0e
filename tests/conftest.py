"What holds for all tests."
import gc
import os
import sys
from importlib import metadata

import pytest
from packaging.version import Version
from hypothesis import settings

# What runs with every Python and with the lowest versions, in an environment without a notebook stack, -m library: the
# tests of the trunk and of the diagnosis, and of the papers' leaf those of what reads and makes data.
EVERYWHERE = ("library", "diagnosis")
OF_DATA = "answers authorship names qa retrieval small_numbers titles worlds".split()


def is_library(path) -> bool:
    name = path.stem.removeprefix("test_")
    return name in OF_DATA or path.parent.name in EVERYWHERE


def pytest_ignore_collect(collection_path, config):
    "With `-m library`, files of the companion are not even imported: they need packages that are not there."
    if config.option.markexpr.startswith("library") and collection_path.suffix == ".py":
        return not is_library(collection_path) or None


# What older versions of others do in another way, as plain losses show too: below a version of a package, with the
# reason, tests.
OLDER = [
    ("torch", "2.6", "transformers resumes no checkpoint", [
        "test_a_training_taken_up_with_another_base_is_refused", "test_a_resumed_training_is_the_uninterrupted_one",
        "test_a_training_resumed_without_the_callback_says_what_is_lost"]),
    ("transformers", "5", "gives a saved cross-encoder other digits after other tests, and the same ones alone", [
        "test_the_trainer_trains_logs_and_saves_a_plain_cross_encoder"]),
    ("transformers", "5", "draws and accumulates gradients in another way", [
        "test_an_evaluation_has_no_influence[bert]", "test_what_saves_memory_trains_the_same[accumulation]"]),
    ("sentence-transformers", "6", "has no EmbedDistillLoss, and a first token that is no prompt's", [
        "test_outreg_is_twice_the_distillation_loss_with_the_base_as_teacher",
        "test_a_prompt_that_pooling_leaves_out_is_left_out[right-cls]",
        "test_a_prompt_that_pooling_leaves_out_is_left_out[left-cls]"]),
]


HAS_PUBLISHED = bool(os.environ.get("DEBIAS_NB_DATA") and os.environ.get("DEBIAS_NB_MODELS"))


def pytest_collection_modifyitems(items):
    versions = {package: Version(metadata.version(package)) for package, *_ in OLDER}
    older = [rule for rule in OLDER if versions[rule[0]] < Version(rule[1])]
    for item in items:
        if is_library(item.path):
            item.add_marker("library")
        if item.get_closest_marker("published") and not HAS_PUBLISHED:
            item.add_marker(pytest.mark.skip(reason="DEBIAS_NB_DATA and DEBIAS_NB_MODELS are not both set"))
        for package, _, reason, tests in older:
            if item.name in tests or item.name.partition("[")[0] in tests:
                item.add_marker(pytest.mark.skip(reason=f"{package} {versions[package]} {reason}"))


settings.register_profile("no deadline", deadline=None) # a busy machine is no failure
settings.load_profile("no deadline")

SET_ASIDE = [0] # modules loaded by then


@pytest.fixture(autouse=True)
def libraries_are_set_aside():
    """Every training begins with a collection of garbage, which would look through all that torch and transformers keep
    in memory: longer than a short training takes."""
    if len(sys.modules) > SET_ASIDE[-1] + 100:
        gc.collect()
        gc.freeze()
        SET_ASIDE.append(len(sys.modules))


@pytest.fixture
def nothing_kept():
    "What a process keeps of data that it has read or made is forgotten before a test and after it."
    from made import forget
    forget()
    yield
    forget()


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    "A folder with one encoder of each kind; nothing in it is ever changed."
    from made import bert, table
    folder = tmp_path_factory.mktemp("models")
    bert(folder)
    table(folder)
    return folder


@pytest.fixture
def data(tmp_path, monkeypatch):
    "An empty folder of data, and a cache beside it."
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("DEBIAS_NB_DATA", str(folder))
    monkeypatch.setenv("DEBIAS_NB_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    "The planted encoders of a file are trained in a folder of its own."
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBIAS_NB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
