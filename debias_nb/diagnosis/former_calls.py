"What the calls of `former` do now, with the arguments that they gave."
from ..checks import ConfigError, quoted
from .all_clear import diagnose_texts
from ..bars import is_shown
from .diagnose import diagnose as diagnose_models
from .external_scores import diagnose_scores
from .diagnosis import Diagnosis
from .files.forms import VALIDATION
from .files.pairs_file import PairFile, check_names, read_named_files
from ..data.registry import DataError
from .former import FILE_OPTIONS, READ_FIRST, refuse_others, warn
from .devices import check_devices
from .models import load_model
from .published import diagnose_results


def _taken(former: dict, *names: str) -> dict:
    "Take arguments out of a former call."
    return {name: former.pop(name) for name in names if name in former}


def _files(former: dict, has_scores: bool = False) -> dict[str, PairFile]: # `train` first if there is one
    "Read the files of a former call with its options."
    options = _taken(former, *FILE_OPTIONS)
    return read_named_files(
        former.pop("train", None), former.pop("tests", {}), has_scores=has_scores,
        progress=is_shown(former.get("progress")), **options)


def _called(options) -> str:
    return f"({', '.join(f'{name}=...' for name in options)})"


def diagnose(former: dict):
    "Answer a call of the four modes of `diagnose`."
    if "results" in former or "trained" in former:
        return _results(former)
    if ("base" in former) != ("tuned" in former):
        raise ConfigError(f"{'tuned' if 'base' in former else 'base'}: a model is expected, or scores of both")
    if "base" in former and "scores" in former:
        raise ConfigError("base and tuned, or scores: one of them is expected, got both")
    if "texts" in former and not former.get("tests"):
        return _texts(former)
    if "base" not in former:
        return _scores(former)
    return _models(former)


def _results(former: dict) -> Diagnosis:
    warn("diagnose(results=...)", "diagnose_results(base, tuned)")
    results = former.pop("results", None) or {}
    if {*results} != {"base", "tuned"}:
        raise ConfigError(f"results: folders called base and tuned are expected, got {quoted(results)}")
    options = _taken(former, "trained", "margin")
    _taken(former, "progress")
    refuse_others("diagnose_results", former)
    return diagnose_results(results["base"], results["tuned"], **options)


def _texts(former: dict):
    warn("diagnose(texts=...) without tests", "diagnose_texts(texts, base, tuned)")
    options = _taken(former, "texts", "base", "tuned", "prompts", "seed")
    _taken(former, "progress", "tests")
    refuse_others("diagnose_texts", former)
    return diagnose_texts(**options)


def _scores(former: dict) -> Diagnosis:
    file_options = [name for name in FILE_OPTIONS if name in former]
    first = f", {READ_FIRST.format(options=', '.join(f'{name}=...' for name in file_options))}" if file_options else ""
    warn("diagnose without models", f"diagnose_scores(tests, scores){first}")
    files = _files(former, has_scores=True)
    train = files.pop("train", None)
    for name in ("prompts", "devices"):
        if name in former:
            raise ConfigError(f"{name}: these need both models, base and tuned")
    return diagnose_scores(files, train=train, **former)


def _models(former: dict) -> Diagnosis:
    file_options = [name for name in FILE_OPTIONS if name in former]
    parts = [READ_FIRST.format(options=", ".join(f"{name}=..." for name in file_options))] * bool(file_options)
    parts += ["load_model(MODEL, device=[...]) in place of MODEL"] * ("devices" in former)
    warn(f"diagnose{_called([*file_options, *(['devices'] if 'devices' in former else [])])}", " and ".join(parts)
         or "with arguments by name")
    devices = former.pop("devices", None)
    if devices is not None:
        check_devices(devices)
    files = _files(former)
    models = [load_model(former.pop(name), devices) for name in ("base", "tuned")]
    return diagnose_models(*models, files.pop("train", None), files, **former)


def compare(former: dict):
    "Answer a call of `compare` with options of files and of a training among its arguments."
    from .compare import TrainingSettings
    from .compare import compare as compare_methods
    file_options = [name for name in FILE_OPTIONS if name in former]
    parts = [READ_FIRST.format(options=", ".join(f"{name}=..." for name in file_options))] * bool(file_options)
    settings = _taken(former, "learning_rate", "epochs", "batch_size", "loss", "redraw")
    parts += [f"training=TrainingSettings{_called(settings)}"] * bool(settings)
    warn(f"compare{_called([*file_options, *settings])}", " and ".join(parts) or "with arguments by name")
    given_validation = former.pop("validation", {})
    check_names("validation", given_validation)
    validation = {VALIDATION + name: source for name, source in given_validation.items()}
    tests = former.pop("tests", {})
    check_names("tests", tests)
    for name in validation.keys() & tests.keys():
        raise DataError(f"a test is called {name!r}, which is the name of pairs to choose strengths on")
    files = _files(former | {"tests": tests | validation})
    for name in FILE_OPTIONS:
        former.pop(name, None)
    former.pop("train", None)
    test_files = {name: files[name] for name in tests}
    held = {name.removeprefix(VALIDATION): files[name] for name in validation}
    return compare_methods(former.pop("base"), files["train"], test_files, training=TrainingSettings(**settings),
                           validation=held, **former)


def label(former: dict):
    "Answer a call of `label` whose pool stands in one of three arguments."
    from .label import Pool
    from .label import label as choose_pairs
    pools = _taken(former, "pool", "texts", "folder")
    if len(pools) != 1:
        raise ConfigError("pool, texts or folder: one of them is expected, with what is to be labeled")
    [(kind, source)] = pools.items()
    columns = former.pop("columns", None)
    makers = {"pool": lambda: Pool.pairs(source, columns), "texts": lambda: Pool.texts(source),
              "folder": lambda: Pool.folder(source)}
    names = {"pool": "pairs", "texts": "texts", "folder": "folder"}
    warn(f"label({'pool, columns' if kind == 'pool' else kind}=...)", f"label(base, tuned, Pool.{names[kind]}(...))")
    if columns is not None and kind != "pool":
        refuse_others(f"Pool.{names[kind]}", {"columns": columns})
    return choose_pairs(former.pop("base"), former.pop("tuned"), makers[kind](), **former)
