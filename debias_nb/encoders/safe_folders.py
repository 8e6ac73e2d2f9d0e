"""What may be loaded from a model's folder: safetensors and settings that are known, and nobody's code."""
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter, ValidationError, create_model

from ..checks import EncoderError, quoted
from .kinds import ROUTER, is_static
from ..files import sha256_file


HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")
NOTES = ("SOURCE.json", "data_config.json") # of where an encoder comes from
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json" # of weights in several files
WITH_WEIGHTS = ("Transformer", "StaticEmbedding", "Dense", "LayerNorm", "CNN", "LSTM", "WeightedLayerPooling")
WITHOUT_WEIGHTS = ("Pooling", "Normalize", "Dropout", "WordWeights", "LogitScore")


def _read(path: Path, kind=dict):
    "Read a file of JSON of a type, of Python or pydantic. Raise `EncoderError` naming the file and the field."
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except OSError as e:
        raise EncoderError(f"{path}: {e.strerror}") from None
    except ValidationError as e:
        mistake = e.errors()[0]
        place = "".join(f"{part}: "[:60] for part in mistake["loc"])
        raise EncoderError(f"{path}: {place}{mistake['msg'][:200]}, found {quoted(mistake['input'])[:60]}") from None


def is_folder(path: str | Path) -> bool:
    "Return whether a folder is there. Raise `EncoderError` for a name that is too long for a path."
    try:
        return Path(path).is_dir()
    except OSError as e:
        raise EncoderError(f"{str(path)[:400]}: {e.strerror}") from None


class _Module(NamedTuple):
    "Module of a model: its class, its name in the model, and the folder of its files."
    kind: str
    name: str
    place: Path


class _ModuleEntry(BaseModel): # a line of modules.json
    type: str
    path: str
    name: Any = None


def _modules(folder: Path) -> list[_Module]:
    """List the modules of a model in their order; a plain folder of transformers is one.

    Raise `EncoderError` for all but the known modules, and for what lies outside of the folder.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return [_Module("Transformer", "0", folder)]
    modules = []
    for module in _read(path, list[_ModuleEntry]):
        package, _, kind = module.type.rpartition(".")
        place = folder / module.path
        if kind in ("Router", "Asym"):
            raise EncoderError(f"{place}: {ROUTER}")
        if package.partition(".")[0] != "sentence_transformers" or kind not in WITH_WEIGHTS + WITHOUT_WEIGHTS:
            why = "is no module of an encoder that is read here; other code is not run"
            raise EncoderError(f"{path}: {quoted(module.type)} {why}")
        is_folder(place)
        if "\0" in module.path or not place.resolve().is_relative_to(folder.resolve()):
            raise EncoderError(f"{path}: the module {quoted(module.path)} lies outside of the folder, or is a link to there")
        modules.append(_Module(kind, str(module.name), place))
    return modules


FLOATS = ("F64", "F32", "F16", "BF16")
WHOLE = ("I64", "I32", "BOOL") # positions and masks are kept so, weights are not
LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer") # names of their number in config.json
OF_LAYER = re.compile(r"(?:^|\.)(?:layers?|blocks?|h)\.(\d+)\.") # in the name of a weight


def _weights(place: Path) -> dict[str, str]:
    "Return the kinds of numbers that files of safetensors hold, by name; a damaged file is refused when loaded."
    kinds = {}
    for path in sorted(place.glob("*.safetensors")):
        with suppress(SafetensorError, OSError), safe_open(path, "pt") as file:
            kinds |= {name: file.get_slice(name).get_dtype() for name in file.keys()}
    return kinds


def _check_numbers(place: Path, weights: dict[str, str]) -> None:
    "Refuse weights in whole numbers or eight bits, which are of another scale than they are read with."
    for name, kind in weights.items():
        is_weight = name.rpartition(".")[2] in ("weight", "bias", "embeddings")
        if kind not in FLOATS and (is_weight or kind not in WHOLE):
            how = "their scale is not read here; save the weights as float32 or float16"
            raise EncoderError(f"{place}: {name[:200]} is quantized ({str(kind)[:20]}): {how}")


class _Config(BaseModel, extra="allow"): # of a transformer, in config.json
    architectures: list[str] | None = None
    model_type: str | None = None


def _check_layers(place: Path, weights: dict[str, str]) -> None:
    "Refuse a transformer that has as many layers as its weights do not. Layers may share them (ALBERT)."
    path = place / "config.json"
    if not path.is_file():
        return
    config = _read(path, _Config).model_dump()
    if config.get("num_hidden_groups"):
        return
    numbers = [OF_LAYER.search(name) for name in weights if not name.startswith("decoder.")]
    depth = max((int(number[1]) + 1 for number in numbers if number), default=0)
    for name in LAYERS:
        number = config.get(name)
        if isinstance(number, int) and (depth or number > 1000) and number != depth:
            raise EncoderError(f"{path}: {name} is {number}, and the weights are of {depth} layers: the numbers must agree")


def _check_module(module: _Module) -> None:
    "Refuse a module without safetensors of its own, and settings that would run code."
    adapter = module.place / "adapter_config.json"
    if module.kind == "Transformer" and adapter.is_file():
        merge = f"model[0].auto_model = peft.PeftModel.from_pretrained(model[0].auto_model, {str(module.place)!r}).merge_and_unload()"
        how = f"with model = SentenceTransformer(BASE), merge it by {merge}, then model.save(FOLDER)"
        raise EncoderError(f"{adapter}: an adapter, whose weights belong to another model; {how}")
    pickles = sorted(path.name for path in module.place.glob("*") if path.suffix in PICKLES)
    names = [WEIGHTS, INDEX] if module.kind == "Transformer" else [WEIGHTS]
    if (pickles or module.kind in WITH_WEIGHTS) and not any((module.place / name).is_file() for name in names):
        what = f"only {', '.join(pickles)}, which are pickles" if pickles else "no weights at all"
        how = f"they must be safetensors, in {WEIGHTS} with the module: convert pickles once, where you trust the source"
        raise EncoderError(f"{module.place}: {what}; {how}")
    weights = _weights(module.place) if module.kind in WITH_WEIGHTS else {}
    _check_numbers(module.place, weights)
    config = module.place / "config.json"
    if module.kind == "Dense" and config.is_file():
        function = _read(config).get("activation_function")
        if function is not None and not str(function).startswith("torch.nn."):
            why = "is no function of torch.nn, and is not called"
            raise EncoderError(f"{config}: activation_function: {str(function)[:60]} {why}")
    if module.kind != "Transformer":
        return
    for path in sorted(module.place.glob("sentence_*_config.json")):
        for value in _read(path, _SETTINGS).model_dump(exclude_unset=True).values():
            if isinstance(value, dict):
                _check_kernel(path, value)
    _check_layers(module.place, weights)


def folder_files(folder: Path) -> dict[str, str]: # file, from the folder on -> sha256
    "Return the sha256 of all files that decide what an encoder gives: weights, tokenizer, modules, settings."
    paths = [path for pattern in HUB_FILES for path in sorted(folder.rglob(pattern)) if path.name not in NOTES]
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}


def check_files(
    folder: Path,
    checksums: dict[str, str] | None = None, # file -> expected sha256
) -> Path:
    """Refuse other files than expected.

    Where more than the weights have a checksum, nothing may be added. Raise `EncoderError` naming the file.
    """
    if not checksums:
        return folder
    others = folder_files(folder)
    for name, expected in checksums.items():
        actual = others.pop(name, "that of no file")
        if actual != expected:
            what = f"sha256 is {actual}, expected {expected}; the file is left as it is and is not used"
            raise EncoderError(f"{folder / name}: {what}")
    if others and len(checksums) > 1:
        raise EncoderError(f"{folder / min(others)}: no file of the encoder that is known by this name")
    return folder


def check_folder(
    folder: Path,
    checksums: dict[str, str] | None = None, # as in `check_files`
    plain: bool = False,                  # whether a folder of transformers alone, without modules.json, will do
) -> Path:
    "Refuse a model folder that is not safe to load. Raise `EncoderError` naming the file and the field."
    names = ("modules.json", "config.json") if plain else ("modules.json",)
    if not any((folder / name).is_file() for name in names):
        raise EncoderError(f"{folder}: no {' and no '.join(names)}, so this is no folder of an encoder")
    for path in folder.rglob("*"):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise EncoderError(f"{path}: neither a file nor a folder")
    check_no_code(folder)
    for path in folder.rglob("tokenizer.json"):
        _read(path, _Tokenizer)
    for path in folder.rglob("added_tokens.json"):
        _read(path, dict[str, TokenId])
    modules = _modules(folder)
    for module in modules:
        _check_module(module)
    if not any(module.kind in WITH_WEIGHTS for module in modules):
        raise EncoderError(f"{folder}: no weights at all; they must be safetensors")
    settings = folder / "config_sentence_transformers.json"
    if settings.is_file():
        _read(settings, _ModelSettings)
    return check_files(folder, checksums)


def _form_of(*names: str, **kinds) -> type[BaseModel]:
    "Return a form that has these fields and no others; a keyword is a field of that type."
    fields = dict.fromkeys(names, (Any, None)) | {name: (kind, None) for name, kind in kinds.items()}
    return create_model("_Alone", __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields)


class _Modality(BaseModel): # how a transformer reads texts
    method: Literal["forward"]


# Settings of a transformer, in sentence_bert_config.json; some are handed on to transformers, when it loads the model, its
# tokenizer or its configuration, and of these what does no harm. No others are taken: they say how files are read, from
# where, by which code, as pickles, onto which device.
_OF_MODEL = _form_of("dtype", "torch_dtype", "attn_implementation", "add_pooling_layer")
_OF_TOKENIZER = _form_of(
    "model_max_length", "padding_side", "truncation_side", "use_fast", "do_lower_case", "add_prefix_space")
_OF_CONFIG = _form_of("use_cache", "is_causal", "use_bidirectional_attention")
_SETTINGS = _form_of(
    "transformer_task", "max_seq_length", "do_lower_case", "module_output_name", "processing_kwargs", "unpad_inputs",
    "query_length", "document_length", "query_expansion", modality_config=dict[str, _Modality] | None, model_kwargs=_OF_MODEL,
    model_args=_OF_MODEL, processor_kwargs=_OF_TOKENIZER, tokenizer_args=_OF_TOKENIZER, config_kwargs=_OF_CONFIG,
    config_args=_OF_CONFIG)


LONGEST_PROMPT = 1000 # characters


class _ModelSettings(BaseModel): # of config_sentence_transformers.json
    model_config = ConfigDict(protected_namespaces=())
    model_type: Literal["SentenceTransformer", "CrossEncoder"] = "SentenceTransformer"
    prompts: dict[str, Annotated[str, Field(max_length=LONGEST_PROMPT)] | None] | None = None
    similarity_fn_name: Literal["cosine", "dot", "euclidean", "manhattan"] | None = None
    truncate_dim: PositiveInt | None = None
    default_prompt_name: str | None = None


TokenId = Annotated[int, Field(ge=0, lt=2**24)] # beyond what any vocabulary has; a tokenizer makes room up to the largest


class _Added(BaseModel):
    id: TokenId


class _Tokenizer(BaseModel): # of tokenizer.json
    added_tokens: list[_Added] | None = None


class _Index(BaseModel): # a list of weights in several files
    weight_map: dict[str, str]


def _check_kernel(path: Path, settings: dict) -> None:
    "Refuse attention that is code of a repository, and is named like one."
    for name, value in settings.items():
        if name.strip("_") in ("attn_implementation", "experts_implementation") and "/" in json.dumps(value):
            raise EncoderError(f"{path}: {name}: {str(value)[:60]} is code of a repository, which is not run")


def check_no_code(folder: Path) -> None:
    "Refuse configurations that name code, or other weights than safetensors. Raise `EncoderError`."
    reasons = {
        "auto_map": "names code of the repository, which is not run",
        "transformers_weights": f"names another file of weights than {WEIGHTS}",
        "quantization_config": "weights that are quantized are not read here",
    }
    for path in folder.rglob("config.json"):
        config = _read(path)
        for name, why in reasons.items():
            if config.get(name) is not None:
                raise EncoderError(f"{path}: {name} {why}")
        _check_kernel(path, config)
    for path in folder.rglob("*.index.json"): # lists of weights in several files
        if path.name.endswith(".bin.index.json"):
            raise EncoderError(f"{path}: a list of pickles, which are not opened; delete it where there are safetensors")
        for weight, file in _read(path, _Index).weight_map.items():
            if Path(file).name != file or not file.endswith(".safetensors"):
                how = "safetensors next to this file are expected"
                raise EncoderError(f"{path}: {weight[:60]}: {how}, found {file[:60]!r}")
            if not (path.parent / file).is_file():
                raise EncoderError(f"{path}: {weight[:60]}: there is no {file[:60]}")


SAFE = {"use_safetensors": True, "weights_only": True}


def _check_whole(model, folder: Path) -> None:
    """Refuse a transformer some of whose weights are in no file, and would be drawn at random.

    A pooler that lacks them becomes one of zeros: sentence-transformers does not ask it.
    """
    from transformers.utils import logging as hf_logging
    for module in _modules(folder):
        part = model._modules.get(module.name)
        transformer = getattr(part, "auto_model", None)
        if transformer is None:
            continue
        verbosity = hf_logging.get_verbosity()
        hf_logging.set_verbosity_error() # it would print a table
        try: # what transformers says of the weights when it would load them
            _, report = type(transformer).from_pretrained(
                module.place, config=transformer.config, device_map="meta", output_loading_info=True,
                local_files_only=True, trust_remote_code=False, **SAFE)
        finally:
            hf_logging.set_verbosity(verbosity)
        lacking = sorted(report["missing_keys"])
        ways = part.modality_config.values()
        is_unused = all(way["method_output_name"] == "last_hidden_state" for way in ways)
        if is_unused and all(name.startswith("pooler.") for name in lacking):
            for name in lacking:
                torch.nn.init.zeros_(transformer.get_parameter(name))
        elif lacking:
            some = ", ".join(lacking[:5])
            raise EncoderError(f"{module.place}: lacks {len(lacking)} weights ({some}), which would be drawn at random")


SHORTEST = 3 # tokens: two of them are special ones


def _check_reads(model, folder: Path) -> None:
    "Refuse a model that reads no word of a text, or gives something else than a vector of numbers for each."
    longest = model.max_seq_length
    if longest is not None and longest < SHORTEST:
        raise EncoderError(f"{folder}: reads {longest} tokens of a text (max_seq_length), and {SHORTEST} are the fewest that hold a word")
    tokenizer = model.tokenizer
    if not set(tokenizer.get_vocab()).difference(getattr(tokenizer, "all_special_tokens", ())):
        raise EncoderError(f"{folder}: the tokenizer knows no word: are its files gone (tokenizer.json, or vocab.txt)?")
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise EncoderError(f"{folder}: {name} has values that are not finite: the training diverged, or the file is damaged")
    if is_static(model):
        largest = max(model.tokenizer.get_vocab().values(), default=-1)
        rows = len(model[0].embedding.weight)
        if largest >= rows:
            raise EncoderError(f"{folder}: the tokenizer has a token with the number {largest}, and the table {rows} rows from 0 on")
    vectors = model.encode(["a text", "another text"], convert_to_tensor=True, show_progress_bar=False)
    shape = (2, model.get_embedding_dimension())
    if not shape[1] or vectors.shape != shape:
        what = f"gives vectors of {vectors.shape[-1]} numbers, and its settings say {shape[1]}"
        raise EncoderError(f"{folder}: {what} (two texts: a tensor of shape {tuple(vectors.shape)})")
    if not vectors.isfinite().all():
        raise EncoderError(f"{folder}: gives vectors that are not finite")


def load_safely(folder: Path, device: str = "cpu"):
    """Load a model from a folder in fp32 and evaluation mode, without the hub, pickles or code that came with it.

    Raise `EncoderError` if the files do not make a model, lack weights, or make one that reads nothing.
    """
    from sentence_transformers import SentenceTransformer
    try:
        model = SentenceTransformer(
            str(folder), device=device, local_files_only=True, trust_remote_code=False, model_kwargs=dict(SAFE))
        _check_whole(model, folder)
        model = model.float().eval()
        _check_reads(model, folder)
    except EncoderError:
        raise
    except Exception as e: # the libraries underneath raise a dozen unrelated classes, and Exception itself
        reason = " ".join(str(e).split())[:400]
        raise EncoderError(f"{folder}: cannot be loaded ({type(e).__name__}: {reason})") from None
    return model
