"""The encoder before and after fine-tuning: loaded without running its code, scored on the same pairs, and mixed."""
import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm

from ..checks import ConfigError, nearest, quoted
from ..encoders.tokens import ROUTER, EncoderError, default_prompt, embed, encoder_fingerprint
from ..encoders.kinds import device_of
from ..encoders.tokens import is_static, leaves_prompts_out, several_texts, special_ids, tokenize
from ..encoders.loading import BY_SCORES, best_device, find_model, refuse_cross
from ..encoders.safe_folders import load_safely
from ..files import sha256_text
from ..losses.averaging import wise_ft
from ..measures.rankings import Levels, corpus_levels

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


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
    def prompt(self) -> str | dict[str, str]: # as a trainer takes it: one for all texts, or one for each column
        left, right = self.prefixes
        return left if left == right else {"left": left, "right": right}

    @property
    def similarity(self) -> str: # cosine, dot, euclidean or manhattan: what its makers compare vectors with
        return self.model.similarity_fn_name

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

    def facts(self) -> dict:
        "Return what a page says of it."
        return {
            "name": self.name, "kind": self.kind, "fingerprint": self.fingerprint, "prompt": self.prompt,
            "source": self.source,
        }


def readers_of(model) -> tuple: # of left and right texts
    "Return a model twice, or a Router's two routes. Raise `EncoderError` for others than of queries and documents."
    routes = getattr(model[0], "sub_modules", None)
    if routes is None:
        return model, model
    if set(routes) != {QUERIES, DOCUMENTS[0]}:
        raise EncoderError(ROUTER)
    settings = {"truncate_dim": model.truncate_dim, "device": str(device_of(model))}
    return tuple(type(model)(modules=[*routes[task], *list(model)[1:]], **settings) for task in (QUERIES, DOCUMENTS[0]))


QUERIES = "query"
DOCUMENTS = ("document", "passage", "corpus") # the first that a model has, as `encode_document` takes it


def side_prompts(model) -> tuple[str, str]: # of left and right texts; "" where there is none
    "Return the default prompt of a model for both sides, or those of `encode_query` and `encode_document`."
    default = default_prompt(model)
    if default:
        return default, default
    prompts = getattr(model, "prompts", None) or {}
    documents = [prompts[name] for name in DOCUMENTS if prompts.get(name)]
    return prompts.get(QUERIES) or "", documents[0] if documents else ""


def prompts_by_name(
    model, prompts: tuple[str, str],
    other_names=(), # those that another model has
) -> tuple[str, str]:
    """Return the prompts before left and right texts, each given by its name or as it is.

    A name that only another model has is no prompt here; a word alone that is no name is refused."""
    texts_by_name = dict.fromkeys(other_names, "") | (getattr(model, "prompts", None) or {})
    texts = []
    for prompt in prompts:
        name = prompt.strip()
        if name and name not in texts_by_name and not re.search(r"[\s:]", prompt.lstrip()):
            raise ConfigError(f"prompts: no prompt is called {quoted(name)}{nearest(name, texts_by_name)}; a prompt "
                              "itself ends in a colon or a blank")
        texts.append(texts_by_name[name] or "" if name in texts_by_name else prompt.lstrip())
    return tuple(texts)


def prompt_notes(prompts: dict[str, str | dict[str, str]]) -> list[str]: # of each model, as `Scorer.prompt`
    "Note what a model reads before texts."
    notes = []
    for name, prompt in prompts.items():
        if isinstance(prompt, dict):
            notes.append(f"The {name} model reads left texts behind {prompt['left']!r} and right texts behind "
                         f"{prompt['right']!r}.")
        elif prompt:
            notes.append(f"The {name} model reads all texts behind {prompt!r}.")
    return notes


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


BLOCK = 4096 # texts or pairs at a time
AT_ONCE = 2**29 # bytes of vectors that are in memory at a time
SCORE_DECIMALS = 6 # of a cosine, or digits of another score, that float32 can tell
NO_LIMIT = 2**30 # tokens


def layers(scorer: Scorer) -> list[tuple[str, dict]]: # of a class its name and settings
    "List the modules that make a vector of a text, in their order, and unusual settings behind them."
    modules = [(type(module).__name__, getattr(module, "get_config_dict", dict)())
               for module in scorer.model.children()]
    if getattr(scorer.model, "truncate_dim", None) is not None:
        modules.append(("truncate_dim", {"kept": scorer.model.truncate_dim}))
    if scorer.similarity != "cosine":
        modules.append(("similarity", {"name": scorer.similarity}))
    return modules


def has_routes(scorer: Scorer) -> bool:
    "Return whether a model reads left and right texts in two ways (a Router)."
    left, right = scorer.readers
    return left is not right


def limit(scorer: Scorer) -> int | None: # tokens; None where there is no limit
    "Return how many tokens of a text a model reads."
    longest = scorer.model.max_seq_length # infinity in a static embedding model, a huge number in some tokenizers
    return int(longest) if longest is not None and longest < NO_LIMIT else None


class Cutting(NamedTuple):
    "What decides how a text becomes tokens; equal where texts are cut into the same tokens."
    kind: str
    rules: str
    prefixes: tuple[str, str]
    limit: int | None
    settings: str


def cutting(scorer: Scorer) -> Cutting:
    "Return what decides how a text becomes tokens."
    _, settings = layers(scorer)[0] # of the module that reads texts
    if has_routes(scorer):
        settings = {"routes": id(scorer.model)} # read by itself
    return Cutting(scorer.kind, scorer.rules, scorer.prefixes, limit(scorer),
                   json.dumps(settings, sort_keys=True, default=str))


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


def _alike(scorers: dict[str, Scorer]) -> list[dict[str, Scorer]]:
    "Group the models that cut texts alike."
    groups = {}
    for name, scorer in scorers.items():
        groups.setdefault((cutting(scorer), leaves_prompts_out(scorer.model)), {})[name] = scorer
    return list(groups.values())


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
        sides = [[*left, *right]] if left_prompt == right_prompt and not has_routes(first) else [left, right]
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
            end = min(start + step, len(left))
            bar.update(2 * end * len(scorers) - bar.n) # texts that stand twice are read once
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


PRODUCTS = ("cosine", "dot") # of vectors; distances are no products


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
            raise EncoderError(f"{name}: a corpus is not searched by {scorer.similarity} distance; give the run of a "
                               "search (--scores)")
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
            for name, scorer in group.items():
                query_part, text_part = query_vectors.pop(name), text_vectors.pop(name)
                check_scores(name, query_part.sum(1).numpy())
                check_scores(name, text_part.sum(1).numpy())
                places = min((first or {}).get(name, 0), len(file.corpus))
                levels[name] = corpus_levels(query_part, text_part, query, document, grade, itself, places,
                                             progress=bar.update)
    return {name: levels[name] for name in scorers}


SHARE_NAMED = .01 # of the pairs of a test, from which on a sentence names them
UNKNOWN_WORDS = "have a text with at least half of its tokens outside the vocabulary"


def _unread(scorer: Scorer, left: list[str], right: list[str]) -> tuple[int, int]:
    "Count the pairs that have a text of more tokens than the model reads, and those with mostly unknown tokens."
    longest = limit(scorer)
    cut = torch.zeros(len(left), dtype=torch.bool)
    strange = cut.clone()
    for texts, prefix, reader in zip((left, right), scorer.prefixes, scorer.readers):
        tokenizer = reader.tokenizer
        if is_static(reader):
            unknown = [tokenizer.token_to_id(word) for word in ("[UNK]", "<unk>")]
        else:
            unknown = [tokenizer.unk_token_id]
        unknown = torch.tensor([number for number in unknown if number is not None])
        tokens = tokenize(reader, texts, longest and longest + 1, prefix)
        if longest is not None:
            cut |= tokens.mask.sum(1) > longest
        is_unknown = torch.isin(tokens.ids, unknown) & tokens.ordinary
        strange |= 2 * is_unknown.sum(1) >= tokens.ordinary.sum(1)
    return int(cut.sum()), int(strange.sum())


def reading_warnings(
    scorers: dict[str, Scorer],
    tests, # with `name`, `left` and `right`
) -> dict[str, float]: # sentence -> fraction of the pairs that hold mostly unknown words
    "Warn of what models do not read."
    warnings = {}
    for test in tests:
        total = len(test.left)
        names = {} # what is said, and of how many pairs -> of which models
        for group in _alike(scorers):
            scorer = next(iter(group.values()))
            counts = np.zeros(2, int)
            for start in range(0, total, BLOCK):
                counts += _unread(scorer, test.left[start:start + BLOCK], test.right[start:start + BLOCK])
            too_long = f"have a text of more than {limit(scorer)} tokens, the limit of {{models}}: its end is not read"
            for problem, count in zip((too_long, UNKNOWN_WORDS + " of {models}"), counts.tolist()):
                names.setdefault((problem, count), []).extend(group)
        for (problem, count), model_names in names.items():
            if count and count >= SHARE_NAMED * total:
                models = " and ".join(f"the {name} model" for name in scorers if name in model_names)
                warnings[f"{test.name}: {count:,} of {total:,} pairs {problem.format(models=models)}."] = (
                    count / total if UNKNOWN_WORDS in problem else 0.)
    return warnings


def scoring_notes(scorers: dict[str, Scorer]) -> list[str]:
    "Note how a pair gets its score, and behind which prompts its texts are read."
    notes = []
    similarities = {name: scorer.similarity for name, scorer in scorers.items()}
    if set(similarities.values()) == {"cosine"}:
        notes.append("A pair's score is the cosine of its two vectors.")
    else:
        names = ", ".join(f"{similarity} for the {name} model" for name, similarity in similarities.items())
        notes.append(f"A pair's score is the similarity that each model's settings name: {names}.")
    notes += prompt_notes({name: scorer.prompt for name, scorer in scorers.items()})
    routed = [f"the {name} model" for name, scorer in scorers.items() if has_routes(scorer)]
    if routed:
        routed = " and ".join(routed)
        notes.append(f"Left texts are read as queries and right texts as documents, by {routed} (Router).")
    if any(isinstance(scorer.prompt, dict) for scorer in scorers.values()):
        notes.append("Words are read without prompts that differ from side to side.")
    return notes


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
