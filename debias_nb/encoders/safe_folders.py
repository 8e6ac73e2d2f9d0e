"""Load only safetensors and known settings from a model's folder, and run none of its code.

sentence-transformers is told to take safetensors alone and to run no code of a folder. What files could ask for besides
is refused by the type of each, in `FILE_KINDS`; what files leave out shows when the model is loaded.
"""
import itertools
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter, ValidationError
from pydantic import create_model

from ..checks import EncoderError, quoted
from .kinds import is_static
from ..files import sha256_file


HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")
SOURCE_NOTES = ("SOURCE.json", "data_config.json") # of where an encoder comes from
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
OTHER_RUNTIMES = (".onnx", ".gguf", ".xml", ".tflite", ".h5", ".msgpack", ".mlmodel") # .xml: of OpenVINO
WEIGHTS_FILE = "model.safetensors"
INDEX = f"{WEIGHTS_FILE}.index.json" # of weights in several files
WITH_WEIGHTS = ("Transformer", "StaticEmbedding", "Dense", "LayerNorm", "CNN", "LSTM", "WeightedLayerPooling")
WITHOUT_WEIGHTS = ("Pooling", "Normalize", "Dropout", "WordWeights", "LogitScore")


# ---------------------------------------------------------------- what a file may say

def _refused(message: str):
    "Return the type of what must not be there."
    def check(value):
        if value is not None:
            raise ValueError(message)

    return Annotated[Any, AfterValidator(check)]


def _check_type(name: str) -> str:
    "Check that a module is one that sentence-transformers has for encoders."
    package, _, kind = name.rpartition(".")
    if kind in ("Router", "Asym"):
        raise ValueError("a Router is read in memory alone: load it with SentenceTransformer, and pass the model")
    if package.partition(".")[0] != "sentence_transformers" or kind not in WITH_WEIGHTS + WITHOUT_WEIGHTS:
        raise ValueError("no module of an encoder that is read here; other code is not run")
    return name


def _check_attention(value):
    "Check that attention is no code of a repository, which is named like one."
    if "/" in json.dumps(value):
        raise ValueError("code of a repository, which is not run")
    return value


Attention = Annotated[Any, AfterValidator(_check_attention)]
# beyond what any vocabulary has; a tokenizer makes room up to the largest
TokenId = Annotated[int, Field(ge=0, lt=2**24)]
# whose number decides how much memory a model takes before its weights are read
Layers = Annotated[int, Field(le=1000)] | None
LONGEST_PROMPT = 1000 # characters
MOST_MODULES = 100 # of a model
MOST_GROWTH = 100 # times the length of a text that a normalizer may make of it
MOST_REPLACEMENTS = 200 # of a normalizer, and characters of each


def _replacements(normalizer) -> list[tuple[str | None, str]]: # pattern, None for any letter; what takes its place
    "List what the normalizer of a tokenizer replaces, in order."
    if isinstance(normalizer, list):
        return [replacement for part in normalizer for replacement in _replacements(part)]
    if not isinstance(normalizer, dict):
        return []
    pattern, content = normalizer.get("pattern"), normalizer.get("content")
    text = pattern.get("String") if isinstance(pattern, dict) else None # a regex may match any letter
    own = [(text or None, content)] if isinstance(content, str) else []
    return own + _replacements(normalizer.get("normalizers"))


def _check_growth(normalizer):
    "Check that a normalizer cannot fill the memory with a text: each pattern, four times, is replaced step by step."
    steps = _replacements(normalizer)
    longest = max((len(pattern or "") + len(content) for pattern, content in steps), default=0)
    if max(len(steps), longest) > MOST_REPLACEMENTS:
        raise ValueError(f"{len(steps):,} replacements of up to {longest:,} characters; at most {MOST_REPLACEMENTS} of "
                         "as many are read")
    for start, with_regexes in itertools.product(range(len(steps)), (False, True)):
        text = 4 * (steps[start][0] or "?")
        longest = MOST_GROWTH * len(text)
        for pattern, content in steps[start:]:
            if not pattern and not with_regexes:
                continue
            count = text.count(pattern) if pattern else len(text)
            if len(text) + count * (len(content) - len(pattern or "?")) > longest: # before it is that long
                raise ValueError(f"may make a text more than {MOST_GROWTH} times as long")
            text = text.replace(pattern, content) if pattern else count * content
    return normalizer


class _ModuleEntry(BaseModel): # a module, in modules.json
    type: Annotated[str, AfterValidator(_check_type)]
    path: Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*$")] # as file systems take it
    name: Any = None

    @property
    def kind(self) -> str:
        return self.type.rpartition(".")[2]


def _form_of(extra: str, *names: str, **kinds) -> type[BaseModel]:
    "Return a form of optional fields; a keyword is a field of that type. `extra` ones are refused or ignored."
    types = dict.fromkeys(names, Any) | kinds
    fields = {f"field_{number}": (kind, Field(None, alias=name)) for number, (name, kind) in enumerate(types.items())}
    return create_model("_Form", __config__=ConfigDict(extra=extra), **fields)


_MODULE = _form_of(
    "ignore", architectures=list[str] | None, model_type=str | None,
    auto_map=_refused("names code of the repository, which is not run"),
    transformers_weights=_refused(f"names another file of weights than {WEIGHTS_FILE}"),
    quantization_config=_refused("weights that are quantized are not read here"),
    num_hidden_layers=Layers, num_layers=Layers, n_layers=Layers, n_layer=Layers,
    attn_implementation=Attention, _attn_implementation=Attention,
    experts_implementation=Attention, _experts_implementation=Attention)
_DENSE = _form_of("ignore", activation_function=Annotated[str, Field(pattern=r"^torch\.nn\.")] | None)
_MODALITY = create_model("_Modality", method=(Literal["forward"], ...)) # how a transformer reads texts

# Settings of a transformer, in sentence_bert_config.json; some are handed on to transformers, when it loads the model,
# its tokenizer or its configuration, and of these what does no harm. No others are taken: they say how files are read,
# from where, by which code, as pickles, onto which device.
_OF_MODEL = _form_of("forbid", "dtype", "torch_dtype", "add_pooling_layer", attn_implementation=Attention)
_OF_TOKENIZER = _form_of(
    "forbid", "model_max_length", "padding_side", "truncation_side", "use_fast", "do_lower_case", "add_prefix_space")
_OF_CONFIG = _form_of("forbid", "use_cache", "is_causal", "use_bidirectional_attention")
_SETTINGS = _form_of(
    "forbid", "transformer_task", "max_seq_length", "do_lower_case", "module_output_name", "processing_kwargs",
    "unpad_inputs", "query_length", "document_length", "query_expansion", modality_config=dict[str, _MODALITY] | None,
    model_kwargs=_OF_MODEL, model_args=_OF_MODEL, processor_kwargs=_OF_TOKENIZER, tokenizer_args=_OF_TOKENIZER,
    config_kwargs=_OF_CONFIG, config_args=_OF_CONFIG)
_MODEL = _form_of(
    "ignore", model_type=Literal["SentenceTransformer", "CrossEncoder"],
    prompts=dict[str, Annotated[str, Field(max_length=LONGEST_PROMPT)] | None] | None,
    similarity_fn_name=Literal["cosine", "dot", "euclidean", "manhattan"] | None, truncate_dim=PositiveInt | None,
    default_prompt_name=str | None)
_ADDED = create_model("_Added", id=(TokenId, ...))
_TOKENIZER = _form_of("ignore", added_tokens=list[_ADDED] | None,
                      normalizer=Annotated[Any, AfterValidator(_check_growth)])
_INDEX = create_model("_Index", weight_map=(dict[str, Annotated[str, Field(pattern=r"^[^/\\]+\.safetensors$")]], ...))

FILE_KINDS = { # name of a file, anywhere in a folder -> what is in it
    "*.bin.index.json": _refused("a list of pickles, which are not opened; delete it where there are safetensors"),
    "*.safetensors.index.json": _INDEX, "config.json": _MODULE,
    "sentence_*_config.json": _SETTINGS, "config_sentence_transformers.json": _MODEL,
    "tokenizer.json": _TOKENIZER, "added_tokens.json": dict[str, TokenId],
}


def _read_json(path: Path, kind):
    "Read a file of JSON of a type, of Python or pydantic. Raise `EncoderError` naming the file and the field."
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except OSError as e:
        raise EncoderError(f"{path}: {e.strerror}") from None
    except ValidationError as e:
        mistake = e.errors()[0]
        place = "".join(f"{part}: "[:60] for part in mistake["loc"])
        if mistake["type"] == "json_invalid": # of which the whole file would be shown
            raise EncoderError(f"{path}: {mistake['msg'][:200]}") from None
        actual = quoted(mistake["input"])[:60]
        if mistake["type"] == "value_error": # whose sentence is our own, and may end in a program
            raise EncoderError(f"{path}: {place}{actual}: {mistake['ctx']['error']}") from None
        raise EncoderError(f"{path}: {place}{mistake['msg'][:200]}, found {actual}") from None


# ---------------------------------------------------------------- a folder

def is_folder(path: str | Path) -> bool:
    "Return whether a folder is there. Raise `EncoderError` for a name that is too long for a path."
    try:
        return Path(path).is_dir()
    except OSError as e:
        raise EncoderError(f"{str(path)[:400]}: {e.strerror}") from None


def _modules(folder: Path) -> list[_ModuleEntry]:
    """List the modules of a model in their order; a plain folder of transformers is one.

    Raise `EncoderError` for all but the known modules, and for what lies outside of the folder.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return [_ModuleEntry(type="sentence_transformers.Transformer", path="", name="0")]
    modules = _read_json(path, Annotated[list[_ModuleEntry], Field(max_length=MOST_MODULES)])
    for module in modules:
        if not (folder / module.path).resolve().is_relative_to(folder.resolve()):
            raise EncoderError(f"{path}: the module {quoted(module.path)} lies outside of the folder, or is a link "
                               "to there")
    return modules


FLOATS = ("F64", "F32", "F16", "BF16")
INTEGER_TYPES = ("I64", "I32", "BOOL") # positions and masks are kept so, weights are not


def _check_numbers(place: Path) -> None:
    "Refuse weights in whole numbers or eight bits, which are of another scale than they are read with."
    kinds = {}
    for path in sorted(place.glob("*.safetensors")):
        # a damaged one is refused when it is loaded
        with suppress(SafetensorError, OSError), safe_open(path, "pt") as file:
            kinds |= {name: file.get_slice(name).get_dtype() for name in file.keys()}
    for name, kind in kinds.items():
        is_weight = name.rpartition(".")[2] in ("weight", "bias", "embeddings")
        if kind not in FLOATS and (is_weight or kind not in INTEGER_TYPES):
            remedy = "their scale is not read here; save the weights as float32 or float16"
            raise EncoderError(f"{place}: {name[:200]} is quantized ({str(kind)[:20]}): {remedy}")


def _check_module(module: _ModuleEntry, place: Path) -> None:
    "Refuse a module without safetensors of its own, and a function that is none of torch."
    adapter = place / "adapter_config.json"
    if module.kind == "Transformer" and adapter.is_file():
        merge = ("model[0].auto_model = peft.PeftModel.from_pretrained(model[0].auto_model, "
                 f"{str(place)!r}).merge_and_unload()")
        remedy = f"with model = SentenceTransformer(BASE), merge it by {merge}, then model.save(FOLDER)"
        raise EncoderError(f"{adapter}: an adapter, whose weights belong to another model; {remedy}")
    pickles = sorted(path.name for path in place.glob("*") if path.suffix in PICKLES)
    has_weights = (place / WEIGHTS_FILE).is_file() or module.kind == "Transformer" and (place / INDEX).is_file()
    if not has_weights and (pickles or module.kind in WITH_WEIGHTS):
        paths = {path for ending in OTHER_RUNTIMES for path in place.rglob(f"*{ending}")}
        foreign_weights = sorted(path.relative_to(place).as_posix() for path in paths)
        if foreign_weights and not pickles:
            raise EncoderError(f"{place}: only {', '.join(foreign_weights[:3])}, which are weights of another runtime; "
                               "where they are from there are safetensors; in Python `diagnose` takes functions "
                               "in place of models")
        problem = f"only {', '.join(pickles)}, which are pickles" if pickles else "no weights at all"
        remedy = (f"they must be safetensors, in {WEIGHTS_FILE} with the module: convert pickles once, where you trust "
                  "the source")
        raise EncoderError(f"{place}: {problem}; {remedy}")
    if module.kind == "Dense" and (place / "config.json").is_file():
        _read_json(place / "config.json", _DENSE)
    _check_numbers(place)


def folder_files(folder: Path) -> dict[str, str]: # file, from the folder on -> sha256
    "Return the sha256 of all files that decide what an encoder gives: weights, tokenizer, modules, settings."
    paths = [path for pattern in HUB_FILES for path in sorted(folder.rglob(pattern)) if path.name not in SOURCE_NOTES]
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}


def check_files(folder: Path, checksums: dict[str, str]) -> None: # checksums: file -> expected sha256
    """Refuse other files than expected.

    Where more than the weights have a checksum, nothing may be added. Raise `EncoderError` naming the file.
    """
    extra_files = folder_files(folder) if checksums else {}
    for name, expected in checksums.items():
        actual = extra_files.pop(name, "that of no file")
        if actual != expected:
            problem = f"sha256 is {actual}, expected {expected}; the file is left as it is and is not used"
            raise EncoderError(f"{folder / name}: {problem}")
    if extra_files and len(checksums) > 1:
        raise EncoderError(f"{folder / min(extra_files)}: not a file of the encoder known by this name")


def check_folder(
    folder: Path,
    checksums: dict[str, str] | None = None, # as in `check_files`
    plain: bool = False,                  # whether a folder of transformers alone, without modules.json, will do
) -> Path:
    "Refuse a model folder that is not safe to load. Raise `EncoderError` naming the file and the field."
    names = ("modules.json", "config.json") if plain else ("modules.json",)
    if not any((folder / name).is_file() for name in names):
        raise EncoderError(f"{folder}: no {' and no '.join(names)}, so this is no folder of an encoder")
    root = folder.resolve()
    if root.parent.name == "snapshots": # of the hub's client, whose files are links to its blobs
        root = root.parents[1]
    for path in folder.rglob("*"):
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise EncoderError(f"{path}: a link out of the folder, which is not read; put the file itself there")
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise EncoderError(f"{path}: neither a file nor a folder")
    for name, kind in FILE_KINDS.items():
        for path in folder.rglob(name):
            _read_json(path, kind)
    for module in _modules(folder):
        _check_module(module, folder / module.path)
    check_files(folder, checksums or {})
    return folder


# ---------------------------------------------------------------- a model

SAFE = {"use_safetensors": True, "weights_only": True}
# in the name of a weight; a decoder reads no text
OF_LAYER = re.compile(r"^(?!decoder\.)(?:.*\.)?(?:layers?|blocks?|h)\.\d+\.")


def _check_whole(model, folder: Path) -> None:
    """Refuse a transformer with weights that are in no file, and would be random, or with too few layers for them.

    A pooler that lacks them becomes one of zeros: sentence-transformers does not ask it.
    """
    from transformers.utils import logging as hf_logging
    for module in _modules(folder):
        part = model._modules.get(str(module.name))
        transformer = getattr(part, "auto_model", None)
        if transformer is None:
            continue
        place = folder / module.path
        verbosity = hf_logging.get_verbosity()
        hf_logging.set_verbosity_error() # it would print a table
        try: # what transformers says of the weights when it would load them
            _, report = type(transformer).from_pretrained(
                place, config=transformer.config, device_map="meta", output_loading_info=True,
                local_files_only=True, trust_remote_code=False, **SAFE)
        finally:
            hf_logging.set_verbosity(verbosity)
        missing = sorted(report["missing_keys"])
        ways = part.modality_config.values()
        is_unused = all(way["method_output_name"] == "last_hidden_state" for way in ways)
        if is_unused and all(name.startswith("pooler.") for name in missing):
            for name in missing:
                torch.nn.init.zeros_(transformer.get_parameter(name))
        elif missing:
            names = ", ".join(missing[:5])
            raise EncoderError(f"{place}: lacks {len(missing)} weights ({names}), which would be drawn at random")
        left_out = sorted(name for name in report["unexpected_keys"] if OF_LAYER.search(name))
        if left_out:
            raise EncoderError(f"{place}: the number of layers in config.json leaves out {len(left_out)} weights "
                               f"({left_out[0]})")


SHORTEST = 3 # tokens: two of them are special ones


def _check_reads(model, folder: Path) -> None:
    "Refuse a model that reads no word of a text, or gives something else than a vector of numbers for each."
    longest = model.max_seq_length
    if longest is not None and longest < SHORTEST:
        raise EncoderError(f"{folder}: reads {longest} tokens of a text (max_seq_length), and {SHORTEST} are the "
                           "fewest that hold a word")
    tokenizer = model.tokenizer
    if not set(tokenizer.get_vocab()).difference(getattr(tokenizer, "all_special_tokens", ())):
        raise EncoderError(f"{folder}: the tokenizer knows no word: are its files gone (tokenizer.json, or vocab.txt)?")
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise EncoderError(f"{folder}: {name} has values that are not finite: the training diverged, or the file "
                               "is damaged")
    if is_static(model):
        largest = max(model.tokenizer.get_vocab().values(), default=-1)
        rows = len(model[0].embedding.weight)
        if largest >= rows:
            raise EncoderError(f"{folder}: the tokenizer has a token with the number {largest}, and the table {rows} "
                               "rows from 0 on")
    vectors = model.encode(["a text", "another text"], convert_to_tensor=True, show_progress_bar=False)
    shape = (2, model.get_embedding_dimension())
    if not shape[1] or vectors.shape != shape:
        problem = f"gives vectors of {vectors.shape[-1]} numbers, and its settings say {shape[1]}"
        raise EncoderError(f"{folder}: {problem} (two texts: a tensor of shape {tuple(vectors.shape)})")
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
