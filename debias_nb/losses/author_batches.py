"""Texts of authors as losses need them: counted rows, batches with pairs of one author, and lookup of a text."""
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from sentence_transformers.base.data_collator import BaseDataCollator
from sentence_transformers.base.sampler import DefaultBatchSampler

from ..checks import check_known, quoted, several_texts, tensor_of
from ..encoders.tokens import Tokens, from_features, report_prompts, tokenize
from ..processes import rank

if TYPE_CHECKING:
    from datasets import Dataset

RowKind = Literal["bow", "tfidf", "char", "function words"]
ROW_KINDS = get_args(RowKind)
WORDS_AND_MARKS = r"\w+|[^\w\s]"


def text_rows(
    kind: RowKind,
    train_texts: list[str],          # vocabulary and frequencies come from these alone
    words: list[str] | None = None,  # of `function words`: what to count; default: scikit-learn's English stop words
): # a function: texts -> (n, V) sparse rows of length 1, or 0 for a text without a word of the vocabulary
    """Return a representation by counts, fitted to the training texts.

    Raises `ValueError` for an unknown kind, or without training texts."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer
    from sklearn.preprocessing import normalize
    check_known("kind", kind, ROW_KINDS)
    if not len(train_texts):
        raise ValueError(f"{kind}: no training texts to count words in")
    style = sorted(set(ENGLISH_STOP_WORDS if words is None else words))
    counters = {
        "bow": CountVectorizer(binary=True),
        "tfidf": TfidfVectorizer(),
        "char": TfidfVectorizer(analyzer="char", ngram_range=(3, 3), lowercase=False),
        "function words": TfidfVectorizer(vocabulary=style, token_pattern=WORDS_AND_MARKS),
    }
    counter = counters[kind].fit(train_texts)

    def rows(texts):
        counts = counter.transform(texts).astype(np.float32)
        return normalize(counts)

    return rows


def _by_author(labels, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order texts by author, shuffled; where each author of several begins, and how many texts each wrote.

    Raises as `author_pairs`."""
    _, author = np.unique(np.asarray(labels), return_inverse=True)
    n = len(author)
    order = np.lexsort([rng.random(n), author])
    starts = np.flatnonzero(np.diff(author[order], prepend=-1))
    sizes = np.diff(starts, append=n)
    several = sizes > 1
    count = several.sum()
    if count < 2:
        raise ValueError(f"only {count} of {len(starts)} authors wrote two texts or more; at least 2 are needed")
    return order, starts[several], sizes[several]


def author_pairs(
    labels,                    # (n,) author ids, of any kind that sorts
    authors: int,              # in a batch, >= 2; two texts of each
    rng: np.random.Generator,
    drop_last: bool = False,   # leave out a last batch of fewer authors; a single author is left out in any case
) -> list[np.ndarray]: # batches of row numbers, the two of an author side by side
    "Sample batches for one pass over the authors. Raises `ValueError` for fewer than two who wrote two texts."
    order, starts, _ = _by_author(labels, rng)
    starts = rng.permutation(starts)
    least = authors if drop_last else 2
    batches = []
    for part in np.split(starts, range(authors, len(starts), authors)):
        if len(part) >= least:
            places = np.stack([part, part + 1], 1)
            batches.append(order[places.ravel()])
    return batches


def drawn_author_pairs(
    labels,       # (n,) author ids, of any kind that sorts
    authors: int, # in a batch, >= 2; two texts of each
    rng: np.random.Generator,
# as many full batches as n texts fill, at least one: row numbers, the two of an author side by side
) -> Iterator[np.ndarray]:
    """Draw authors for each batch, and two texts of each, so that an author of many texts shows more of them.

    Raises as `author_pairs`."""
    order, starts, sizes = _by_author(labels, rng)
    for _ in range(max(1, len(order) // (2 * authors))):
        sample = rng.choice(len(starts), min(authors, len(starts)), replace=False)
        first = rng.integers(sizes[sample])
        second = (first + rng.integers(1, sizes[sample])) % sizes[sample]
        places = starts[sample] + np.stack([first, second])
        yield order[places.T.ravel()]


class AuthorPairSampler(DefaultBatchSampler):
    """Draw batches with two texts of each author, for `SentenceTransformerTrainingArguments(batch_sampler=...)`.

    Each author with two texts or more is in an epoch once. Pass the class itself; the trainer makes the object.

    Parameters
    ----------
    dataset : datasets.Dataset
        With a column of author ids.
    batch_size : int, even, 4 or more
        Texts in a batch, twice the number of authors.
    drop_last : bool
        Leave out a last batch of fewer authors.
    valid_label_columns : sequence of str
        Names that the column of author ids may have.
    generator : torch.Generator, optional
        Its seed is taken in place of `seed`.
    seed : int
        Random seed.

    Raises
    ------
    ValueError
        For a batch size that does not fit, no column of author ids, fewer than two authors with two texts.

    Examples
    --------
    >>> from datasets import Dataset
    >>> from debias_nb import AuthorPairSampler
    >>> texts = Dataset.from_dict({"text": list("abcdefgh"), "label": [0, 0, 1, 1, 2, 2, 3, 3]})
    >>> [len(batch) for batch in AuthorPairSampler(texts, batch_size=4)]
    [4, 4]
    """
    def __init__(
        self, dataset: "Dataset", batch_size: int, drop_last: bool = False,
        valid_label_columns: Sequence[str] = ("label",),
        generator: torch.Generator | None = None, seed: int = 0,
    ):
        if batch_size % 2 or batch_size < 4:
            raise ValueError(f"batch_size must be even and at least 4, two texts of each author, got {batch_size}")
        if generator is not None: # the trainer of sentence-transformers 6.0 gives its seed in nothing else
            seed = generator.initial_seed()
        super().__init__(dataset, batch_size, drop_last, valid_label_columns, generator, seed)
        names = list(valid_label_columns or ())
        columns = [name for name in names if name in dataset.column_names]
        if not columns:
            raise ValueError(f"no column of author ids: looked for {names} among {dataset.column_names}")
        self.labels = np.asarray(dataset[columns[0]])
        if self.labels.dtype.kind not in "iu":
            [name, *_] = columns
            problem = f"column {name!r} has authors such as {self.labels[:2].tolist()}, and a batch needs whole numbers"
            raise ValueError(f"{problem}: put author_ids(data[{name!r}]) in its place")
        self.length = sum(1 for _ in self)

    def batches(self, rng: np.random.Generator) -> Iterable[np.ndarray]:
        return author_pairs(self.labels, self.batch_size // 2, rng, self.drop_last)

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.epoch, 0])
        for batch in self.batches(rng):
            yield batch.tolist()

    def __len__(self):
        return self.length


class AuthorTextSampler(AuthorPairSampler):
    "Sampler whose epoch has as many texts as there are: each batch draws authors, and two texts of each."
    def batches(self, rng):
        return drawn_author_pairs(self.labels, self.batch_size // 2, rng)


def author_ids(
    names, # (n,) authors, of any kind that sorts
) -> np.ndarray: # (n,) whole numbers from 0
    "Assign a number to each author, in sorted order."
    _, ids = np.unique(np.asarray(names), return_inverse=True)
    return ids


def authors_of(
    labels: torch.Tensor | None,
    n: int,       # rows of a batch
    columns: int, # of texts
) -> torch.Tensor: # (columns * n,) author ids
    """Return the author of each text of a batch.

    Raises `ValueError` for other columns, or labels that are no author ids."""
    if columns > 2:
        raise ValueError(f"author losses take texts, or pairs of one author, and got {columns} columns of texts")
    if labels is None:
        if columns == 1:
            raise ValueError("one column of texts needs a column `label` with the number of each text's author")
        labels = rank() * n + torch.arange(n)
    labels = tensor_of("labels", labels)
    if labels.is_floating_point() or labels.shape != (n,):
        got = f"{labels.dtype} of shape {tuple(labels.shape)}"
        raise ValueError(f"labels must be {n} numbers of authors (`author_ids`), got {got}")
    return labels.repeat(columns)


def _author_tensor(authors):
    "Convert author ids to a tensor. Raises `ValueError` for what is no whole number."
    ids = np.asarray(authors)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"author ids must be whole numbers, got {ids.dtype}: `author_ids` makes them")
    return torch.from_numpy(ids.astype(np.int64))


class AuthorCollator(BaseDataCollator):
    """Collator that makes sentence-transformers batches of tokenized texts, with row ids.

    Raises `ValueError` for labels of another length than the texts, or that are no whole numbers.
    """
    def __init__(self,
        tokens: Tokens, # of n texts
        labels,         # (n,) author ids, whole numbers
    ):
        super().__init__(preprocess_fn=None)
        self.tokens = tokens
        self.labels = _author_tensor(labels)
        n = len(self.labels)
        if len(tokens) != n:
            raise ValueError(f"{n} labels for {len(tokens)} texts")

    def __call__(self, features: list[dict]) -> dict:
        "Make a batch of the texts named by `row`."
        rows = torch.tensor([feature["row"] for feature in features])
        part = self.tokens[rows]
        return {
            "label": self.labels[rows],
            "text_input_ids": part.ids,
            "text_attention_mask": part.mask.long(),
            "text_row": rows,
        }


def sparse_cosines(
    rows, # (n, V) scipy sparse, of length 1 or 0: the rows of a batch
) -> torch.Tensor: # (n, n) float32 on the CPU
    "Compute the cosines of all pairs of sparse rows."
    products = (rows @ rows.T).toarray()
    products = np.ascontiguousarray(products, dtype=np.float32)
    return torch.from_numpy(products)


class NumberedTexts:
    """Topic vectors of numbered texts.

    A batch has the numbers of its texts, from `AuthorCollator`. Raises `ValueError` for rows that are not finite, or
    authors of another number of texts.
    """
    texts = None # the texts themselves are unknown

    def __init__(self,
        topics,       # (texts, V) rows of the topic model, scipy sparse or an array, of any length
        authors=None, # (texts,) author ids, whole numbers, to check that these are the texts of the batches
    ):
        from scipy import sparse
        from sklearn.preprocessing import normalize
        rows = sparse.csr_array(topics, dtype=np.float32)
        bad = np.flatnonzero(~np.isfinite(rows.data))
        if len(bad):
            row = np.searchsorted(rows.indptr, bad[0], "right") - 1
            raise ValueError(f"topics: row {row} is not finite")
        self.topics = normalize(rows)
        self.authors = None
        if authors is not None:
            self.authors = _author_tensor(authors)
            if len(self.authors) != len(self):
                raise ValueError(f"{len(self.authors)} authors for topics of {len(self)} texts: not of the same texts")

    def __len__(self):
        return self.topics.shape[0]

    def rows_of(self,
        column: dict, # of a batch
    ) -> torch.Tensor: # (n,) on the CPU
        """Return the rows of a batch.

        Raises `ValueError` for one without row ids, `IndexError` for a row outside the table."""
        if "row" not in column:
            raise ValueError("the batch does not say which rows it holds: give the trainer an `AuthorCollator`")
        rows = column["row"].cpu()
        is_outside = (rows < 0) | (rows >= len(self))
        if is_outside.any():
            row = rows[is_outside][0]
            raise IndexError(f"row {row} is outside the table of {len(self)} texts, made from other texts")
        return rows

    def cosines(self,
        rows: torch.Tensor,    # (n,) of a batch
        authors: torch.Tensor, # (n,) of the batch
    ) -> torch.Tensor: # (n, n) of the topic model, on the device of the authors
        "Compute the cosines of a batch. Raises `ValueError` for a row with another author than the table's."
        if self.authors is not None:
            is_different = self.authors[rows] != authors.cpu()
            if is_different.any():
                row = rows[is_different][0]
                raise ValueError(f"row {row} has another author in the batch than in the table: other texts")
        return sparse_cosines(self.topics[rows.numpy()]).to(authors.device)


def _keys(tokens: Tokens) -> list[bytes]:
    "Return a key for each text: its tokens without padding, special tokens and prompt."
    ids = tokens.ids.int().cpu().numpy()
    ordinary = tokens.ordinary.cpu().numpy()
    return [row[is_ordinary].tobytes() for row, is_ordinary in zip(ids, ordinary)]


class TokenizedTexts(NumberedTexts):
    """Texts with their TF-IDF vectors, which a batch names by their tokens.

    Raises `ValueError` for what are no texts, or fewer than two.
    """
    def __init__(self,
        model, # the SentenceTransformer that makes the batches
        texts: list[str],
    ):
        texts = several_texts(texts)
        if len(texts) < 2:
            raise ValueError(f"texts: at least 2 are needed, got {len(texts)}")
        report_prompts(model, self)
        self.model = model
        self.texts = texts
        super().__init__(text_rows("tfidf", texts)(texts))

    @cached_property
    def place(self) -> dict[bytes, int]:
        "The first row of each key. Warns of other texts with the same tokens, which are taken for that one."
        places = {}
        self.limit = self.model.max_seq_length
        keys = _keys(tokenize(self.model, self.texts))
        for row, key in enumerate(keys):
            places.setdefault(key, row)
        first = [places[key] for key in keys]
        alike = [row for row, other in enumerate(first) if self.texts[row] != self.texts[other]]
        differences = self.topics[alike] - self.topics[[first[row] for row in alike]]
        confused = [row for row, topics in zip(alike, abs(differences).sum(1)) if topics > 1e-6]
        if confused:
            counted = f"{len(confused):,} of {len(keys):,} texts"
            problem = (f"{counted} have the tokens of another one, of {self.limit} that the model reads, and other "
                       f"topics, such as {quoted(self.texts[confused[0]])}; they are taken for it")
            remedy = "leave out what texts begin with (a header), raise max_seq_length, or number them (AuthorCollator)"
            warnings.warn(f"{problem}: {remedy}", stacklevel=2)
        return places

    def rows_of(self, column):
        "Return the rows of a batch. Raises `ValueError` for a text that is not in the table."
        keys = _keys(from_features(self.model, column))
        if "place" in vars(self) and self.model.max_seq_length != self.limit: # texts are cut elsewhere
            del self.place
        for key in keys:
            if key not in self.place:
                text = self.model.tokenizer.decode(np.frombuffer(key, np.int32).tolist())
                remedy = "give it all that it is trained or evaluated on, with a prompt that cuts them in front of each"
                problem = f"{text[:60]!r}, as its tokens read, is none of the texts that the loss was given"
                raise ValueError(f"{problem}: {remedy}")
        return torch.tensor([self.place[key] for key in keys])


def numbered_texts(model, texts) -> NumberedTexts:
    "Return the texts of training with their topic vectors."
    return texts if isinstance(texts, NumberedTexts) else TokenizedTexts(model, texts)
