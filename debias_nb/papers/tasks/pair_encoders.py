"""Encoders that read a question and an answer together: an alignment network on word vectors, or a transformer.

What an answer means for a question need not fit into a vector that was made without it. An encoder of pairs reads both
and gives one vector H for the two. Of a pair that is too long the answer is cut, never the question: half a question is
another question.

The alignment network compares each word of one text with what the other has to say about it, the weighted mean of its
words with weights w exp(cosine / tau), and aggregates what was found. It is of the family of Comp-Agg and RE2, with
which the paper compares, and none of them: it is what can be trained without a GPU. The transformer is read on its
first token, through a pooler that is always fresh, since sentence encoders pool in other ways. `learned` has its
weights in `state_dict`, its words come from `texts`.
"""
import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from ...settings import EncoderConfig
from ...checks import EncoderError, several_texts
from ...encoders.tokens import unit_rows
from ...encoders.safe_folders import load_safely
from ...encoders.loading import find_folder, load_encoder


@dataclass(frozen=True, eq=False)
class PairInputs:
    "Tokens of n pairs."
    columns: dict[str, list[np.ndarray]] # n rows of ids or token types, by the argument of `forward` that they are for
    lengths: np.ndarray                  # (n,) tokens that a pair costs in a batch, special ones included
    padding: dict[str, int]              # column -> what its rows are filled up with, where that is not 0
    masks: dict[str, str]                # argument of `forward` -> the column where it is 1 up to the end of each row

    def __len__(self):
        return len(self.lengths)

    def batch(self,
        rows, # positions, or a slice
    ) -> dict[str, torch.Tensor]: # arguments of the encoder's `forward`, padded to the longest of these rows
        positions = torch.arange(len(self))[rows].tolist()
        batch = {}
        for name, column in self.columns.items():
            vectors = [torch.from_numpy(column[i]) for i in positions]
            batch[name] = pad_sequence(vectors, batch_first=True, padding_value=self.padding.get(name, 0))
        for mask, name in self.masks.items():
            lengths = torch.tensor([len(self.columns[name][i]) for i in positions])
            places = torch.arange(batch[name].shape[1])
            batch[mask] = (places < lengths[:, None]).long()
        return batch


CHUNK = 50_000 # pairs that are tokenized at a time: lists of numbers take several times the memory of arrays


class PairEncoder(nn.Module):
    "Encoder (question, answer) -> H. Subclasses have `width`, `encode` (texts -> lists of ids) and `forward`."
    width: int                   # d, numbers in H
    special: int = 0             # tokens of a pair that stand in neither text
    positions: int | None = None # tokens that a pair can have at most, if there is a limit
    padding: dict[str, int] = {} # as in `PairInputs`
    masks: dict[str, str] = {"question_mask": "question_ids", "answer_mask": "answer_ids"} # as in `PairInputs`

    def lay_out(self, questions, answers, max_length) -> dict[str, list[list[int]]]: # as `columns` of `PairInputs`
        "Return ids of the two texts apart. Subclasses may lay them out in another way."
        question_ids = self.encode(questions)
        answer_ids = self.encode(answers)
        cut_ids = [answer[:max_length - len(question)] for question, answer in zip(question_ids, answer_ids)]
        return {"question_ids": question_ids, "answer_ids": cut_ids}

    def tokenize(self,
        questions: list[str], answers: list[str], # pair by pair
        # tokens of a pair, special ones included; of a longer one the answer is cut
        max_length: int = 128,
    ) -> PairInputs:
        """Tokenize pairs.

        Raise `ValueError` for unequal lengths and for one text instead of a list; naming the row, for an empty text, a
        question that leaves no room for an answer, and a pair that the encoder cannot read.
        """
        questions = several_texts(questions, "questions")
        answers = several_texts(answers, "answers")
        distinct = list(set(questions))
        counts = {text: len(ids) for text, ids in zip(distinct, self.encode(distinct))}
        question_counts = [counts[question] for question in questions]
        for row, (question, count) in enumerate(zip(questions, question_counts)):
            if count < 1 or not question.strip():
                raise ValueError(f"row {row}: the question is empty: {question!r}")
            if count + self.special >= max_length:
                reason = f"a question of {count} tokens leaves no room for an answer in max_length {max_length}"
                raise ValueError(f"row {row}: {reason}: {question[:60]!r}")
        columns = {ids: [] for ids in self.masks.values()}
        for start in range(0, len(questions), CHUNK):
            chunk = slice(start, start + CHUNK)
            for name, rows in self.lay_out(questions[chunk], answers[chunk], max_length).items():
                columns.setdefault(name, []).extend(np.array(row, np.int64) for row in rows)
        lengths = sum(np.array([len(row) for row in columns[ids]], np.int64) for ids in self.masks.values())
        for row, (answer, tokens) in enumerate(zip(answers, lengths)):
            if tokens - self.special - question_counts[row] < 1 or not answer.strip():
                raise ValueError(f"row {row}: the answer is empty: {answer!r}")
            if self.positions and tokens > self.positions:
                reason = f"{tokens} tokens, but this encoder has {self.positions} positions: give max_length"
                raise ValueError(f"row {row}: {reason}")
        return PairInputs(columns, lengths, self.padding, self.masks)


def attention(
    left: torch.Tensor,   # (n, L, d) word vectors
    right: torch.Tensor,  # (n, R, d)
    # (n, R) >= 0, how much each word on the right matters; 0 where there is none, not 0 everywhere
    weight: torch.Tensor,
    temperature,          # tau > 0
) -> torch.Tensor: # (n, L, R), each row sums to 1
    "Compute how much each word on the left attends to each word on the right."
    cosine = F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).mT
    logits = cosine / temperature + weight.log()[:, None]
    return logits.softmax(-1)


def pool(
    values: torch.Tensor, # (n, L, d), >= 0
    weight: torch.Tensor, # (n, L) >= 0, with a positive sum
    mask: torch.Tensor,   # (n, L), 1 where there is a word
) -> torch.Tensor: # (n, 2 d)
    "Return weighted mean and maximum over the words that there are."
    weight = weight * mask
    share = weight / weight.sum(1, keepdim=True).clamp(min=1e-9)
    mean = (values * share[..., None]).sum(1)
    largest = (values * mask[..., None]).amax(1)
    return torch.cat([mean, largest], -1)


TEMPERATURE = .1 # tau at the start


class AlignmentEncoder(PairEncoder):
    "Soft alignment of word vectors, comparison, aggregation."
    def __init__(self,
        vectors: torch.Tensor,                # (vocabulary, d) word vectors; ids of words are rows
        encode,                               # list of texts -> lists of ids
        units: int = 100,                     # numbers in H, and in each layer before it
        weight: torch.Tensor | None = None,   # (vocabulary,) > 0, how much each word matters; None: all the same
        frozen: bool = True,                  # whether the vectors stay as they are
        dropout: float = .3,                  # on word vectors, in [0, 1)
    ):
        super().__init__()
        self.encode = encode
        self.width = units
        self.vectors = nn.Embedding.from_pretrained(vectors, freeze=frozen)
        if weight is None:
            weight = torch.ones(len(vectors))
        self.register_buffer("weight", weight)
        self.log_temperature = nn.Parameter(torch.tensor(np.log(TEMPERATURE), dtype=torch.float32))
        self.dropout = nn.Dropout(dropout)
        self.compare = nn.Linear(4 * vectors.shape[1], units)
        self.neighbors = nn.Conv1d(units, units, 3, padding=1)
        self.aggregate = nn.Linear(4 * units, units)

    def read(self, text, partner, weight, partner_weight, mask, temperature): # -> (n, 2 units)
        "Read one text next to the other: aligned, compared, and pooled over its words."
        context = attention(text, partner, partner_weight, temperature) @ partner
        features = torch.cat([text, context, text - context, text * context], -1)
        compared = self.compare(features).relu() * mask[..., None]
        by_word = self.neighbors(compared.mT).mT.relu()
        return pool(by_word, weight, mask)

    def forward(self, question_ids, question_mask, answer_ids, answer_mask) -> torch.Tensor: # -> H (n, units)
        "Encode pairs; ids and masks are (n, L) for questions and (n, R) for answers."
        q = self.dropout(self.vectors(question_ids))
        a = self.dropout(self.vectors(answer_ids))
        wq = self.weight[question_ids] * question_mask
        wa = self.weight[answer_ids] * answer_mask
        tau = self.log_temperature.exp()
        question = self.read(q, a, wq, wa, question_mask, tau)
        answer = self.read(a, q, wa, wq, answer_mask, tau)
        pair = torch.cat([question, answer], -1)
        return self.aggregate(pair).tanh().to(self.log_temperature)


UNKNOWN_WORD = 1 # the id of all other words; 0 pads


def words(text: str) -> list[str]:
    "Split a text into words in lower case, and single marks."
    return re.findall(r"\w+|[^\w\s]", text.lower())


def vocabulary(
    texts: list[str],
) -> dict[str, int]: # word -> id from 2 on, in alphabetical order
    "Assign a number to each word of some texts, whatever their order."
    distinct = {word for text in set(texts) for word in words(text)}
    return {word: i for i, word in enumerate(sorted(distinct), 2)}


def word_ids(number: dict[str, int], texts: list[str]) -> list[list[int]]: # number: of `vocabulary`
    "Return ids of a vocabulary made of words; words that it lacks have one id."
    return [[number.get(word, UNKNOWN_WORD) for word in words(text)] for text in texts]


def special_tokens(
    tokenizer, # of transformers
) -> int:
    """Count the tokens of its own that a tokenizer puts into a pair.

    Raise `EncoderError` for one that cannot pad, or that puts none before the first text or between the two.
    """
    name = tokenizer.name_or_path or type(tokenizer).__name__
    if tokenizer.pad_token_id is None or not tokenizer.is_fast:
        raise EncoderError(f"the tokenizer {name} has no padding token, or no tokenizer.json: it cannot read pairs")
    side = tokenizer("a", "b").sequence_ids() # 0 for the first text, 1 for the second, None for special tokens
    first = side.index(0)
    if first == 0 or None not in side[first:side.index(1)]:
        reason = "puts no token before the first text, or none between two: it cannot read pairs"
        raise EncoderError(f"the tokenizer {name} {reason}")
    return side.count(None)


class CrossEncoder(PairEncoder):
    """Transformer that reads question and answer in one row, as its tokenizer lays them out.

    H is its first token through a fresh linear layer and tanh.
    """
    masks = {"attention_mask": "input_ids"}

    def __init__(self,
        transformer, # of transformers, without a head; a pooler of its own is taken off
        tokenizer,
    ):
        "Raise `EncoderError` for a tokenizer that cannot lay out pairs."
        super().__init__()
        self.special = special_tokens(tokenizer)
        self.padding = {"input_ids": tokenizer.pad_token_id}
        self.tokenizer = tokenizer
        self.transformer = transformer
        self.width = transformer.config.hidden_size
        self.positions = getattr(transformer.config, "max_position_embeddings", None)
        embeddings = getattr(transformer, "embeddings", None)
        padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
        if padding is not None: # RoBERTa counts positions from behind its padding
            self.positions -= padding + 1
        if hasattr(transformer, "pooler"):
            transformer.pooler = None
        linear = nn.Linear(self.width, self.width)
        self.pooler = nn.Sequential(linear, nn.Tanh())
        nn.init.normal_(linear.weight, std=getattr(transformer.config, "initializer_range", .02))
        nn.init.zeros_(linear.bias)

    def encode(self, texts):
        "Return ids of single texts."
        return self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []

    def lay_out(self, questions, answers, max_length):
        "Return ids of pairs and, where the transformer has them, token types."
        return self.tokenizer(
            questions, answers, truncation="only_second", max_length=max_length, return_attention_mask=False)

    def forward(self, **batch) -> torch.Tensor: # of `PairInputs.batch`, (n, L) each -> H (n, d)
        states = self.transformer(**batch).last_hidden_state
        return self.pooler(states[:, 0]).float()


def transformer_folder(config: EncoderConfig) -> Path: # of the encoder, or of sentence-transformers' first module in it
    "Find where the transformer itself is. Raise `EncoderError` as `find_folder`, and naming the file if there is none."
    folder = find_folder(config, plain=True)
    modules = folder / "modules.json"
    if not modules.is_file():
        return folder
    first = json.loads(modules.read_text())[0]
    if not first["type"].endswith(".Transformer"):
        reason = f"{first['type']} is no transformer, and cannot read a pair; use kind 'alignment'"
        raise EncoderError(f"{modules}: {reason}")
    return folder / first["path"]


def directions(
    table: torch.Tensor, # (vocabulary, d) word vectors
) -> tuple[torch.Tensor, torch.Tensor]: # (vocabulary, d) of mean square 1; (vocabulary,) relative lengths, at least .01
    "Scale word vectors to one length, and return the lengths. A vector of zeros stays one."
    norm = table.norm(dim=1)
    relative = norm / norm[norm > 0].mean()
    square_1 = table.shape[1]**.5 # the length of a vector whose mean square is 1
    return unit_rows(table) * square_1, relative.clamp(min=.01)


def load_pair_encoder(
    config: EncoderConfig,            # of kind `alignment` or `cross`
    texts: list[str] | None = None,   # of training, for the vocabulary of an encoder called `learned`
    seed: int = 0,                    # of all weights that are fresh, whatever was drawn before
) -> PairEncoder: # in evaluation mode, on the CPU, in fp32
    """Load the pair encoder that a configuration describes.

    Raise `EncoderError` if it is not found, not safe, of no kind that reads pairs, or `learned` without texts.
    """
    if config.kind not in ("alignment", "cross"):
        reason = "which encodes single texts; pairs are read by kinds 'alignment' and 'cross'"
        raise EncoderError(f"encoder {config.display!r} is of kind {config.kind!r}, {reason}")
    if config.name == "learned" and not texts:
        raise EncoderError("encoder 'learned' makes its vocabulary of texts, and none were given")
    names = ("name", "revision", "world", "pretrain") # of an encoder of single texts
    settings = {name: getattr(config, name) for name in names}
    with torch.random.fork_rng([]):
        if config.name == "learned":
            number = vocabulary(texts)
            torch.manual_seed(seed)
            vectors = torch.randn(len(number) + 2, config.embedding)
            encoder = AlignmentEncoder(vectors, partial(word_ids, number), config.units, frozen=False, dropout=.1)
        elif config.kind == "alignment":
            static = load_encoder(EncoderConfig(kind="static", **settings))
            vectors, weight = directions(static[0].embedding.weight.detach().float())

            def encode(texts):
                encodings = static.tokenizer.encode_batch(texts, add_special_tokens=False)
                return [encoding.ids for encoding in encodings]

            torch.manual_seed(seed)
            encoder = AlignmentEncoder(vectors, encode, config.units, weight)
        else:
            if config.pretrain:
                model = load_encoder(EncoderConfig(kind="transformer", **settings))
            else:
                model = load_safely(transformer_folder(config))
            torch.manual_seed(seed)
            encoder = CrossEncoder(model[0].auto_model, model.tokenizer)
    return encoder.eval()
