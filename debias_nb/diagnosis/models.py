"""The encoder before and after fine-tuning: loaded without running its code, scored on the same pairs, and mixed."""
import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm

from ..checks import ConfigError, nearest, quoted, several_texts
from ..encoders.kinds import check_apart, device_of
from ..encoders.loading import BY_SCORES, best_device, find_model, refuse_cross
from ..encoders.safe_folders import load_safely
from ..encoders.tokens import ROUTER, EncoderError, default_prompt, embed, encoder_fingerprint
from ..encoders.tokens import is_static, leaves_prompts_out, special_ids, tokenize
from ..files import sha256_text
from ..losses.averaging import wise_ft
from ..measures.rankings import Levels, corpus_levels

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

QUERIES = "query"
DOCUMENTS = ("document", "passage", "corpus") # the first that a model has, as `encode_document` takes it


@dataclass(frozen=True, eq=False)
class Scorer:
    "Model that scores pairs."
    name: str     # as it was asked for
    model: object # sentence-transformers' SentenceTransformer
    kind: str     # static or transformer
    source: str | None = None # what `load_model` takes for it; None: it is in memory alone
    prompts: tuple[str, str] | None = None # before left and right texts; None: those that its settings name

    @property
    def prefix(self) -> str: # what the model puts before every text by itself
        return default_prompt(self.model)

    @property
    def prefixes(self) -> tuple[str, str]: # of left and right texts
        return self.prompts or side_prompts(self.model)

    @cached_property
    def readers(self) -> tuple: # SentenceTransformers
        "The model as it reads left and right texts: a Router's routes of queries and of documents."
        return readers_of(self.model)

    @property
    def has_routes(self) -> bool: # a Router
        left, right = self.readers
        return left is not right

    @property
    def similarity(self) -> str: # cosine, dot, euclidean or manhattan: what its makers compare vectors with
        return self.model.similarity_fn_name

    @property
    def limit(self) -> int | None: # tokens of a text that it reads; None where there is no limit
        longest = self.model.max_seq_length # infinity in a static embedding model, a huge number in some tokenizers
        return int(longest) if longest is not None and longest < NO_LIMIT else None

    @cached_property
    def rules(self) -> str: # 64 hex digits
        "sha256 over the tokenizer: its vocabulary and how it cuts."
        tokenizer = self.model.tokenizer
        tokenizer = getattr(tokenizer, "_tokenizer", tokenizer)
        rules = json.loads(tokenizer.to_str())
        rules.update(truncation=None, padding=None) # set anew at every call
        return sha256_text(json.dumps(rules))

    @cached_property
    def fingerprint(self) -> str: # 64 hex digits
        "sha256 over all weights and the tokenizer's vocabulary."
        return encoder_fingerprint(self.model)

    @property
    def settings(self) -> dict:
        "What decides, besides its weights, which vector a text gets."
        settings = {"tokenizer": self.rules[:8], "prompts": self.prefixes, "longest text": self.limit,
                    "similarity": self.similarity, "truncate_dim": getattr(self.model, "truncate_dim", None)}
        for module in self.model.children():
            config = getattr(module, "get_config_dict", dict)()
            settings |= {f"{type(module).__name__}, {key}": value for key, value in config.items()}
        return settings

    def facts(self) -> dict:
        "Return what a page says of it."
        left, right = self.prefixes
        return {"name": self.name, "kind": self.kind, "fingerprint": self.fingerprint,
                "prompt": left if left == right else {"left": left, "right": right}, "source": self.source}


def readers_of(model) -> tuple: # of left and right texts
    "Return a model twice, or a Router's two routes. Raise `EncoderError` for others than of queries and documents."
    routes = getattr(model[0], "sub_modules", None)
    if routes is None:
        return model, model
    if set(routes) != {QUERIES, DOCUMENTS[0]}:
        raise EncoderError(ROUTER)
    settings = {"truncate_dim": model.truncate_dim, "device": str(device_of(model))}
    return tuple(type(model)(modules=[*routes[task], *list(model)[1:]], **settings) for task in (QUERIES, DOCUMENTS[0]))


def side_prompts(model) -> tuple[str, str]: # of left and right texts; "" where there is none
    "Return the default prompt of a model for both sides, or those of `encode_query` and `encode_document`."
    default = default_prompt(model)
    if default:
        return default, default
    prompts = getattr(model, "prompts", None) or {}
    documents = [prompts[name] for name in DOCUMENTS if prompts.get(name)]
    return prompts.get(QUERIES) or "", documents[0] if documents else ""


def with_prompts(scorer: Scorer, prompts: tuple[str, str] | None, other_names=()) -> Scorer:
    """Let a model read left and right texts behind other prompts, each given by its name or as it is.

    None leaves those of its settings. A name that only another model has is no prompt here; a word alone that is no
    name is refused."""
    if prompts is None:
        return scorer
    prompts = several_texts(prompts, "prompts")
    if len(prompts) != 2:
        raise ConfigError(f"prompts: one before left and one before right texts, got {quoted(prompts)}")
    texts_by_name = dict.fromkeys(other_names, "") | (getattr(scorer.model, "prompts", None) or {})
    texts = []
    for prompt in prompts:
        name = prompt.strip()
        if name and name not in texts_by_name and not re.search(r"[\s:]", prompt.lstrip()):
            raise ConfigError(f"prompts: no prompt is called {quoted(name)}{nearest(name, texts_by_name)}; a prompt "
                              "itself ends in a colon or a blank")
        texts.append(texts_by_name[name] or "" if name in texts_by_name else prompt.lstrip())
    return replace(scorer, prompts=tuple(texts))


def kind_of(model) -> str: # static or transformer
    "Return the kind of a model; refuse what is no sentence encoder, and an unknown tokenizer."
    from sentence_transformers import SentenceTransformer
    if not isinstance(model, SentenceTransformer):
        raise EncoderError(f"a SentenceTransformer or a folder of one is expected, got {type(model).__name__}; "
                           f"{BY_SCORES}")
    readers = readers_of(model)
    for reader in readers:
        special_ids(reader) # raises where the tokenizer is of an unknown kind
    return "static" if all(map(is_static, readers)) else "transformer"


Model: TypeAlias = "str | Path | SentenceTransformer | Scorer" # as `load_model` takes it


def is_function(source) -> bool:
    "Tell whether a model is a function that scores pairs, and no encoder."
    from torch.nn import Module
    return callable(source) and not isinstance(source, (str, Path, Scorer, Module))


def load_model(source: Model, device: str | None = None) -> Scorer:
    """Load a sentence encoder, which scores pairs, as `diagnose` and `compare` do it.

    No code from a model's folder is run, and weights are read from safetensors alone.

    Parameters
    ----------
    source : str, Path, SentenceTransformer or Scorer
        A folder, a name in `encoders.yaml`, an id on the model hub with its commit (`name@commit`), or a model.
    device : str, optional
        Where it computes; default: a GPU if there is one. A model in memory stays where it is.

    Returns
    -------
    Scorer
        `model` is the model itself; `kind` is "static" or "transformer".

    Raises
    ------
    EncoderError
        If it is not found, not safe to load, or no sentence encoder.

    Examples
    --------
    >>> from debias_nb import load_encoder, load_model
    >>> load_model(load_encoder("tiny-static")).kind
    'static'
    """
    if isinstance(source, Scorer):
        return source
    if not isinstance(source, (str, Path)):
        return Scorer("a model in memory", source, kind_of(source))
    folder = find_model(str(source))
    refuse_cross(folder)
    model = load_safely(folder, device or best_device())
    try:
        return Scorer(str(source), model, kind_of(model), source=str(source))
    except EncoderError as e:
        raise EncoderError(f"{source}: {e}") from None


def load_pair(base: Model, tuned: Model, prompts: tuple[str, str] | None = None) -> dict[str, Scorer]:
    """Load both models.

    Raise `EncoderError` for the same model twice, `ValueError` where one computes with the weights of the other."""
    models = load_model(base), load_model(tuned)
    names = {name for scorer in models for name in getattr(scorer.model, "prompts", None) or {}}
    base_scorer, tuned_scorer = (with_prompts(scorer, prompts, names) for scorer in models)
    check_apart(base_scorer.model, tuned_scorer.model)
    if base_scorer.fingerprint == tuned_scorer.fingerprint and base_scorer.settings == tuned_scorer.settings:
        raise EncoderError(
            f"base ({base_scorer.name}) and tuned ({tuned_scorer.name}) are the same model: fine-tuning changed "
            "nothing, or one of the names is wrong")
    return {"base": base_scorer, "tuned": tuned_scorer}


def mixed_scorer(
    base: Scorer,
    tuned: Scorer,
    share: float, # alpha, of the tuned weights, in [0, 1]
) -> Scorer:
    """Make a model with weights between two; static ones share the tokenizer of the tuned one.

    Raises `ValueError` for a share outside [0, 1] or models of different make."""
    model = wise_ft(base.model, tuned.model, share)
    if tuned.kind == "static":
        model.tokenizer = tuned.model.tokenizer # a copy takes more memory than the table
    return replace(tuned, name=f"{share:g} of {tuned.name}", model=model, source=None)


# ---------------------------------------------------------------- scores

BLOCK = 4096 # texts or pairs at a time
AT_ONCE = 2**27 # bytes of vectors that are in memory at a time
SCORE_DECIMALS = 6 # of a cosine, or digits of another score, that float32 can tell
NO_LIMIT = 2**30 # tokens
PRODUCTS = ("cosine", "dot") # of vectors; distances are no products


def cutting(scorer: Scorer) -> tuple:
    "Return what decides how a text becomes tokens; equal where texts are cut into the same tokens."
    reader = next(scorer.model.children())
    settings = {"routes": id(scorer.model)} if scorer.has_routes else getattr(reader, "get_config_dict", dict)()
    return (scorer.kind, scorer.rules, scorer.prefixes, scorer.limit, json.dumps(settings, sort_keys=True, default=str),
            leaves_prompts_out(scorer.model))


def _alike(scorers: dict[str, Scorer]) -> list[dict[str, Scorer]]:
    "Group the models that cut texts alike."
    groups = {}
    for name, scorer in scorers.items():
        groups.setdefault(cutting(scorer), {})[name] = scorer
    return list(groups.values())


def vectors_of(
    scorers: dict[str, Scorer], # all of them cut texts alike
    texts: list[str],
    side: int,                  # whose prompt stands before the texts: 0 of left texts, 1 of right texts
    bar: tqdm,
) -> dict[str, torch.Tensor]: # (n, d) of each model
    "Encode texts, which are cut into tokens once for all models."
    first = next(iter(scorers.values()))
    prompt = first.prefixes[side]
    vectors = {name: torch.empty(len(texts), scorer.model.get_embedding_dimension())
               for name, scorer in scorers.items()}
    for start in range(0, len(texts), BLOCK):
        stretch = texts[start:start + BLOCK]
        tokens = tokenize(first.readers[side], stretch, prompt=prompt)
        for name, scorer in scorers.items():
            reader = scorer.readers[side]
            vectors[name][start:start + BLOCK] = embed(reader, tokens, unit=scorer.similarity == "cosine")
        bar.update(len(stretch) * len(scorers))
    return vectors


def round_scores(scores: torch.Tensor, similarity: str) -> np.ndarray: # (n,)
    "Round scores to what float32 can tell apart."
    scores = scores.double().numpy()
    if similarity == "cosine":
        return scores.round(SCORE_DECIMALS)
    size = np.floor(np.log10(np.maximum(np.abs(scores), 1e-30)))
    unit = 10.**(SCORE_DECIMALS - 1 - size)
    return np.round(scores * unit) / unit


def _similarities(scorers: dict[str, Scorer], left, right, bar) -> dict[str, np.ndarray]:
    "Score one stretch of pairs, each distinct text encoded once."
    out = {}
    for group in _alike(scorers):
        first = next(iter(group.values()))
        left_prompt, right_prompt = first.prefixes
        sides = [[*left, *right]] if left_prompt == right_prompt and not first.has_routes else [left, right]
        numbers, texts = zip(*(pd.factorize(np.array(side, dtype=object)) for side in sides))
        lefts, rights = np.split(np.concatenate(numbers), 2)
        vectors = [vectors_of(group, distinct.tolist(), side, bar) for side, distinct in enumerate(texts)]
        for name, scorer in group.items():
            parts = [np.empty(0)]
            for rows in range(0, len(lefts), BLOCK):
                left_vectors = vectors[0][name][lefts[rows:rows + BLOCK]]
                right_vectors = vectors[-1][name][rights[rows:rows + BLOCK]]
                scores = ((left_vectors * right_vectors).sum(1) if scorer.similarity == "cosine"
                          else scorer.model.similarity_pairwise(left_vectors, right_vectors))
                parts.append(round_scores(scores, scorer.similarity))
            out[name] = np.concatenate(parts)
    return out


def pair_scores(
    scorers: dict[str, Scorer],
    left: list[str],
    right: list[str],
    title: str = "",         # the name of the progress bar
    progress: bool = False, # show it
) -> dict[str, np.ndarray]: # (n,) of each model, higher = more likely a match
    """Score pairs by each model's own similarity.

    Scores that float32 cannot tell apart are equal. Raises `ValueError` for one text in place of a list, and for sides
    of different length, `EncoderError` for a model whose scores are not finite."""
    left = several_texts(left, "left")
    right = several_texts(right, "right")
    if len(left) != len(right):
        raise ValueError(f"{len(left)} texts on the left and {len(right)} on the right: pairs are needed")
    parts = {name: [np.empty(0)] for name in scorers}
    numbers = sum(scorer.model.get_embedding_dimension() for scorer in scorers.values())
    step = max(BLOCK, AT_ONCE // (2 * 4 * numbers)) # two texts of four bytes a number
    with tqdm(total=2 * len(left) * len(scorers), desc=title, unit=" texts", unit_scale=True, disable=not progress,
              leave=False) as bar:
        for start in range(0, len(left), step):
            rows = slice(start, start + step)
            for name, values in _similarities(scorers, left[rows], right[rows], bar).items():
                parts[name].append(values)
            bar.update(2 * min(start + step, len(left)) * len(scorers) - bar.n) # a text that stands twice is read once
    scores = {name: np.concatenate(values) for name, values in parts.items()}
    for name, values in scores.items():
        check_scores(name, values)
    return scores


def check_scores(name: str, scores: np.ndarray) -> None:
    "Check that the scores of a model are finite."
    bad = ~np.isfinite(scores)
    if bad.any():
        reason = "its training diverged, or its weights are damaged"
        raise EncoderError(f"{name}: {bad.sum():,} of {len(bad):,} scores are not finite; {reason}")


def search_corpus(
    scorers: dict[str, Scorer],
    file,                       # a `PairFile` whose form is retrieval
    title: str = "",             # as of `pair_scores`, and what follows
    progress: bool = False,
    # how many of the first texts of each query to keep, of each model; none by default
    first: dict[str, int] | None = None,
) -> dict[str, Levels]: # of each model
    """Find where the relevant texts of each query stand in the corpus, by each model's own similarity.

    Raises `EncoderError` for a similarity that is no product, and for scores that are not finite."""
    for name, scorer in scorers.items():
        if scorer.similarity not in PRODUCTS:
            raise EncoderError(f"{name}: a corpus is not searched by {scorer.similarity} distance; test it on pairs")
    rows = file.frame
    queries = rows.drop_duplicates("query")
    itself = queries["itself"].to_numpy() if "itself" in rows else None
    query, document, grade = (rows[column].to_numpy() for column in ("query", "document", "label"))
    count = 2 * len(queries) + len(file.corpus) # each query is read, and ranks
    levels = {}
    with tqdm(total=count * len(scorers), desc=title, unit=" texts", unit_scale=True, disable=not progress,
              leave=False) as bar:
        for group in _alike(scorers):
            query_vectors = vectors_of(group, queries.left.tolist(), 0, bar)
            text_vectors = vectors_of(group, file.corpus, 1, bar)
            for name in group:
                query_part, text_part = query_vectors.pop(name), text_vectors.pop(name)
                check_scores(name, query_part.sum(1).numpy())
                check_scores(name, text_part.sum(1).numpy())
                places = min((first or {}).get(name, 0), len(file.corpus))
                levels[name] = corpus_levels(query_part, text_part, query, document, grade, itself, places,
                                             progress=bar.update)
    return {name: levels[name] for name in scorers}


def cut_texts(scorers: dict[str, Scorer], name: str, left: list[str], right: list[str]) -> list[str]:
    "Warn of texts that are longer than a model reads."
    warnings = []
    for group in _alike({name: scorer for name, scorer in scorers.items() if scorer.limit is not None}):
        scorer = next(iter(group.values()))
        is_cut = np.zeros(len(left), bool)
        for texts, prefix, reader in zip((left, right), scorer.prefixes, scorer.readers):
            for start in range(0, len(texts), BLOCK):
                tokens = tokenize(reader, texts[start:start + BLOCK], scorer.limit + 1, prefix)
                is_cut[start:start + BLOCK] |= (tokens.mask.sum(1) > scorer.limit).numpy()
        if is_cut.mean() >= .01: # less is nothing to act on
            models = " and ".join(f"the {model} model" for model in group)
            warnings.append(f"{name}: {is_cut.sum():,} of {len(left):,} pairs have a text of more than {scorer.limit} "
                            f"tokens, the limit of {models}: its end is not read.")
    return warnings


def notes_of(scorers: dict[str, Scorer]) -> list[str]:
    "Note how pairs get their scores, where that is by anything but the cosine of texts without prompts."
    notes = [f"The {name} model compares vectors by {scorer.similarity}." for name, scorer in scorers.items()
             if scorer.similarity != "cosine"]
    for name, scorer in scorers.items():
        left, right = scorer.prefixes
        if left == right != "":
            notes.append(f"The {name} model reads all texts behind {left!r}.")
        elif left != right:
            notes.append(f"The {name} model reads left texts behind {left!r} and right texts behind {right!r}.")
        if scorer.has_routes:
            notes.append(f"The {name} model reads left texts as queries and right texts as documents (Router).")
    return notes


def setting_differences(base: Scorer, tuned: Scorer) -> str: # "" where none differs
    "Say in which settings two models of one kind differ."
    keys = [key for key in base.settings | tuned.settings if base.settings.get(key) != tuned.settings.get(key)]
    if base.kind != tuned.kind or not keys:
        return ""
    values = "; ".join(f"{key}: {quoted(base.settings.get(key))} before, {quoted(tuned.settings.get(key))} after"
                       for key in keys)
    return f"The two models differ in settings, and a part of each change may come from that ({values})."
