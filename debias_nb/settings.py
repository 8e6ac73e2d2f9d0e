"""Settings of synthetic datasets and of encoders."""
from typing import Annotated, Literal

from pydantic import Field

from .files import Count, Natural, NotNegative, Positive, Probability, Several, Settings, Share, Strict

# Losses of sentence-transformers by their own names: for two texts and a label of 0 or 1, and one that takes the
# matches alone: the others of a batch are their negatives.
OfLabels = Literal["CosineSimilarityLoss", "CoSENTLoss", "AnglELoss", "ContrastiveLoss", "OnlineContrastiveLoss"]
OfMatches = Literal["MultipleNegativesRankingLoss"]


class WorldConfig(Strict):
    """Parameters of the planted catalog of products, for `Catalog`; the defaults are a mild shortcut.

    Attributes
    ----------
    name : str
        "catalogue".
    seed : int
        Draws the lexicon and every text.
    p, p_ood, p_broad : float, in [0, 1]
        Probability that a title's brand is one of the two of its product type: in training, in the shifted splits, in
        the broad corpus (above 0 the base encoder itself is biased).
    brand_match : float, in [0, 1]
        Further probability that both sides of a relevant training pair carry one brand.
    decoys : float, in [0, 1]
        Fraction of test queries with a decoy: an item of the same brand, of the type that the brand was trained with.
    p_attr, p_noun : float, in [0, 1]
        Probability that a title has an attribute word, and the noun of its type.
    known, aknown : float, in [0, 1]
        Fraction of nouns, and of attribute words, whose synonyms the broad corpus mixes.
    attributes : {"shared", "local"}
        Whether types share their attribute words.
    accessories : float, in [0, 1]
        Fraction of types for which the brand is causal.
    prefix_brands : float, in [0, .5]
        Fraction of brands that are another brand plus a syllable.
    types, unseen_types : int
        Product types of training (4 or more), and those that training never sees (2 or more).
    train_pairs, broad_pairs : int
        Relevant pairs of training, and pairs of the broad corpus.
    queries, items : int
        Of one test split.
    negatives, test_negatives : int
        Non-relevant pairs for each relevant one, in labeled training pairs and in test pairs.

    Raises
    ------
    pydantic.ValidationError
        For a parameter that does not exist or is out of range.

    Examples
    --------
    >>> from debias_nb import WorldConfig
    >>> WorldConfig(p=1., decoys=1.).p_ood
    0.0
    """
    name: Literal["catalogue"] = "catalogue"
    seed: Count = 0
    p: Probability = .9
    brand_match: Probability = .3
    p_ood: Probability = 0.
    decoys: Probability = .5
    p_attr: Probability = .9
    p_noun: Probability = .6
    known: Probability = 1.
    aknown: Probability = 1.
    p_broad: Probability = 0.
    attributes: Literal["shared", "local"] = "shared"
    accessories: Probability = .2
    prefix_brands: Annotated[float, Field(ge=0, le=.5)] = .25
    types: Annotated[int, Field(ge=4)] = 80
    unseen_types: Several = 30
    train_pairs: Natural = 4000
    broad_pairs: Natural = 12000
    queries: Natural = 300
    items: Several = 1000
    negatives: Natural = 3
    test_negatives: Natural = 20


class AnswersWorldConfig(Settings):
    """Parameters of planted questions and answers, for `answers_split`.

    The cue word is causal, the words that an answer shares with its question are the shortcut.

    Attributes
    ----------
    name : str
        "answers".
    seed : int
        Draws every text.
    rho : float, in [-1, 1]
        Strength of the shortcut: a right answer shares many words with probability (1 + rho) / 2, a wrong one with
        (1 - rho) / 2. The split `neutral` has 0 in its place, `shifted` has -rho.
    cue, stray : float, in [0, 1]
        Probability that a right answer, and a wrong one, carries a cue of its question's type.
    types, cues : int
        Types of questions (2 or more), and cue words of each.
    content : int, 20 or more
        Number of other words.
    asked, length : int
        Content words of a question (3 or more), and words of an answer (5 or more).
    many, few : int
        Words shared with the question; few < many <= asked, and many < length.
    candidates : int, 2 or more
        Answers to each question, one of them right.
    questions, tests : int
        Questions of training, and of the development set and each test set.

    Raises
    ------
    pydantic.ValidationError
        For a parameter that does not exist, is out of range or does not go with the others.

    Examples
    --------
    >>> from debias_nb import AnswersWorldConfig
    >>> AnswersWorldConfig(name="answers", rho=.9).candidates
    6
    """
    name: Literal["answers"]
    seed: Count = 0
    rho: Annotated[float, Field(ge=-1, le=1)] = .8
    cue: Probability = .95
    stray: Probability = .1
    types: Several = 4
    cues: Natural = 5
    content: Annotated[int, Field(ge=20)] = 600
    asked: Annotated[int, Field(ge=3)] = 4
    length: Annotated[int, Field(ge=5)] = 10
    many: Natural = 3
    few: Count = 1
    candidates: Several = 6
    questions: Natural = 3000
    tests: Natural = 500

    def rules(self):
        is_ordered = self.few < self.many <= self.asked
        yield not is_ordered, f"few < many <= asked is needed, got {self.few}, {self.many}, {self.asked}"
        yield (self.many >= self.length,
               f"an answer of {self.length} words has no room for {self.many} shared words and a cue")


class AuthorsWorldConfig(Strict):
    """Parameters of planted texts of synthetic authors, for `authors_split`.

    Style (function words, marks, spellings) is causal, the topic is the shortcut.

    Attributes
    ----------
    name : str
        "authors".
    seed : int
        Draws words, authors and texts.
    kappa : float, in [0, 1]
        Strength of the shortcut: probability that a text is on its author's home topic, in training and in the split
        `iid`; in `cross` nobody has one.
    style : float, 0 or more
        Standard deviation of an author's log-rates of function words; twice as much for marks.
    functions, marks, spellings : int
        Function words, punctuation marks, and words with two spellings, of which an author prefers one.
    prefers : float, in [0, 1]
        Probability of the preferred spelling.
    content : int, 10 or more
        Content words, shared by all topics unless `apart` is above 0.
    concentration : float, above 0
        Of the Dirichlet distribution of topics: the smaller, the fewer words a topic has.
    about : float, in [0, 1]
        Fraction of a text that is content.
    topics, unseen_topics : int
        Topics of training, and of the split `cross`.
    apart : float, in [0, 1]
        Fraction of the content words for which unseen topics have words of their own.
    authors, test_authors, texts : int, 2 or more
        Authors of training, authors of each test, texts of each author.
    tokens : int, 10 or more
        Median length of a text, in words.
    spread : float, 0 or more
        Standard deviation of the log of a text's length.

    Raises
    ------
    pydantic.ValidationError
        For a parameter that does not exist or is out of range.

    Examples
    --------
    >>> from debias_nb import AuthorsWorldConfig
    >>> AuthorsWorldConfig(name="authors", kappa=1.).topics
    16
    """
    name: Literal["authors"]
    seed: Count = 0
    kappa: Probability = .9
    style: NotNegative = .6
    functions: Several = 60
    marks: Natural = 6
    spellings: Count = 25
    prefers: Probability = .85
    content: Annotated[int, Field(ge=10)] = 300
    concentration: Positive = .1
    about: Probability = .5
    topics: Several = 16
    unseen_topics: Natural = 8
    apart: Probability = 0.
    authors: Several = 300
    test_authors: Several = 200
    texts: Several = 6
    tokens: Annotated[int, Field(ge=10)] = 120
    spread: NotNegative = .3


World = WorldConfig | AnswersWorldConfig | AuthorsWorldConfig


class PretrainConfig(Strict):
    "Training of a planted base encoder from scratch on the broad corpus: by steps, never by seconds."
    steps: Natural = 200
    batch_size: Several = 96  # pairs
    learning_rate: Positive = 1e-3
    warmup_steps: Count = 30
    temperature: Positive = .05
    vocabulary: Annotated[int, Field(ge=50)] = 2500 # word pieces at most
    masked: Probability = .5     # share of pairs one side of which is masked, so that the encoder knows [MASK]
    mask_shares: tuple[Share, ...] = (.15, .4) # share of tokens masked there, one drawn per pair
    seed: Count = 0


class EncoderConfig(Settings):
    """A base encoder: which one, of which kind, and how long its texts may be.

    Kinds `static` and `transformer` read one text, `alignment` and `cross` a pair (`papers.tasks.pair_encoders`): a
    network on word vectors, and a transformer.
    """
    name: str                    # `tiny`, `tiny-static`, `minilm`, a folder under DEBIAS_NB_MODELS, or a hub id
    kind: Literal["static", "transformer", "alignment", "cross"]
    revision: str | None = None  # commit of the hub repository
    max_length: Natural = 32     # tokens, special ones included
    # bf16 is autocast, in training and evaluation; weights stay fp32. fp64 is for alignment networks, whose training is
    # chaotic: in single precision their metrics depend on the processor.
    dtype: Literal["fp32", "bf16", "fp64"] = "fp32"
    label: str | None = None     # what the tables call it; default: its name
    role: Literal["weak", "strong"] | None = None # the paper's two kinds of base encoder
    world: WorldConfig | None = None # the world whose broad corpus trained it (planted encoders)
    pretrain: PretrainConfig | None = None # and the recipe (planted encoders)
    units: Natural | None = None # of an alignment network
    # Numbers in a word vector of an encoder called `learned`, which begins with random ones. An alignment network
    # with another name has the vectors of the static encoder it is named after, frozen.
    embedding: Natural | None = None

    @property
    def display(self) -> str: # the name in tables
        return self.label or self.name

    @property
    def has_files(self) -> bool: # planted and `learned` ones are made here
        return self.pretrain is None and self.name != "learned"

    def rules(self):
        recipe = self.world is not None and self.pretrain is not None
        is_learned = self.name == "learned"
        is_network = self.kind == "alignment"
        wrong = {
            "`world` and `pretrain` belong to the planted encoders tiny and tiny-static, and to them alone":
                recipe != (self.name in ("tiny", "tiny-static")),
            "`units` belongs to alignment networks, and is required there": is_network != (self.units is not None),
            "`embedding` belongs to encoders called `learned`, and is required there":
                is_learned != (self.embedding is not None),
            "an encoder called `learned` is an alignment network or a static embedding model":
                is_learned and self.kind not in ("alignment", "static"),
            "`dtype` fp64 belongs to alignment networks": self.dtype == "fp64" and not is_network,
        }
        for rule, is_broken in wrong.items():
            yield is_broken, f"encoder {self.name!r}: {rule}"
