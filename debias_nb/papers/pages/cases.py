"""The papers' case studies, which a rule picks, with counts: titles and their tokens, answers, and similar topics."""
import re
from collections.abc import Iterable
from textwrap import shorten

import numpy as np
import pandas as pd
import seaborn as sns
from scipy.stats import binomtest

from ..data.answers import distinct_words
from ..data.author_splits import paper_split
from ..data.authors import planted_texts
from ...runs.config import load_experiment
from ...runs.pairing import config_of
from .cells import REFERENCE
from .claims import REVERSE, UNSURE, YES
from .details import extras, place
from .frame import Study
from .plots import canvas, our_style
from .printed import load_expected
from .tables import show


Query = dict[str, dict] # method -> its case


def first_cases(
    records: list[dict],
    *methods: str, # that a place has to have
) -> dict[tuple, list[Query]]: # (encoder, corpus, evaluate) -> queries
    "Return the cases of each method's first seed, in the first world."
    groups = {}
    by_seed = sorted(records, key=lambda record: (config_of(record).world_seed or 0, record["seed"]))
    for record, tests in extras(by_seed, "cases"):
        labels = place(record)
        for test, cases in tests.items():
            group = groups.setdefault((labels["encoder"], labels["corpus"], test), {})
            group.setdefault(labels["method"], cases)
    return {place: [dict(zip(group, query)) for query in zip(*group.values())]
            for place, group in groups.items() if {*methods} <= group.keys()}


def which_way(
    told: int,    # cases that go as the paper tells it
    reverse: int, # cases that go the other way round
) -> str: # of `CLAIM_WORDS`
    "Answer whether most cases go as the paper tells it, by an exact sign test at 5% that takes the seed as it is."
    if sign_test(told, reverse) >= .05:
        return UNSURE
    return YES if told > reverse else REVERSE


def sign_test(wins: int, losses: int) -> float: # p, two-sided
    "Test exactly whether one of two counts is larger; 1 if both are 0."
    return binomtest(wins, max(1, wins + losses)).pvalue


UNSHOWN = ( # beginnings of words of violence or abuse
    "abus", "assault", "kill", "molest", "murder", "porn", "rape", "raping", "rapist", "suicid", "terror", "tortur",
    "violen",
)
def is_decent(texts: Iterable[str]) -> bool: # all that a page would show of a case
    "Return whether no text has a word of violence or abuse."
    unshown = re.compile(rf"\b({'|'.join(UNSHOWN)})", re.IGNORECASE)
    return not any(map(unshown.search, texts))


# ---------------------------------------------------------------- titles and their tokens


SHOWN = ("Base", REFERENCE, "ITVReg")
STORY_SIDES = { # what the paper tells -> counts of queries that go so, and of those that go the other way round
    "fine-tuning puts items first that say the raised token": ("says_newly", "says_no_more"),
    "fine-tuning loses right first items": ("lost", "gained"),
    "the story is told more often than its reverse": ("kept", "missed"),
    "ITVReg brings importance back": ("nearer", "farther"),
    "ITVReg brings its share of the query's importance back": ("share_nearer", "share_farther"),
}
RARE = .05 # of the queries


def case_counts(records: list[dict]) -> pd.DataFrame: # one row per encoder, corpus, evaluation set and further method
    "Count the queries that tell what the paper prints, and those that tell its reverse; first seed."
    rows = []
    for (encoder, corpus, test), queries in first_cases(records, *SHOWN[:2]).items():
        for name in queries[0].keys() - {*SHOWN[:2]}:
            sides = pd.DataFrame([sides_of(query, name) for query in queries])
            at = dict(encoder=encoder, corpus=corpus, test=test, method=name, queries=len(sides))
            rows.append(at | dict(sides.sum()))
    return pd.DataFrame(rows, columns=["encoder", "corpus", "test", "method", "queries",
                                       *(name for side in STORY_SIDES.values() for name in side)])


def sides_of(query: Query, name: str) -> dict[str, bool]: # name: of a further method
    """Return what a query tells of a method, and of its reverse.

    By the first item: of those that Base has right and plain fine-tuning wrong (`lost`) the method has some right
    (`kept`); of those that it is the other way round (`gained`) it has some wrong (`missed`). By the token that plain
    fine-tuning raised most: with the method its importance is `nearer` to that of Base than with plain fine-tuning, or
    `farther`, the same by its share of the query's importance. The first item says it with plain fine-tuning and not
    with Base (`says_newly`), or the other way round (`says_no_more`)."""
    cases = [query[method] for method in (*SHOWN[:2], name)]
    titles, right = zip(*(case["top"][0] for case in cases))
    token = cases[0]["tokens"][raised(*cases[:2])]
    before, after = (says_token(title, token) for title in titles[:2])
    lost, gained = right[0] > right[1], right[1] > right[0]
    importance = np.array([case["importance"] for case in cases])
    distance = moved_away(importance)
    of_share = moved_away(importance / importance.sum(axis=1, keepdims=True))
    return {"says_newly": after > before, "says_no_more": before > after, "lost": lost, "gained": gained,
            "kept": lost and right[2], "missed": gained and not right[2], "nearer": distance < 0,
            "farther": distance > 0, "share_nearer": of_share < 0, "share_farther": of_share > 0}


def raised(base: dict, tuned: dict) -> int: # of a query, by two methods
    "Find the token whose importance plain fine-tuning raised most above Base."
    return int(np.subtract(tuned["importance"], base["importance"]).argmax())


def moved_away(importance: np.ndarray) -> float: # importance: (3, tokens), of Base, plain fine-tuning and a method
    "Say how much farther from Base a method is than plain fine-tuning, at the token that the latter raised most."
    tuned, own = importance[1:] - importance[0]
    position = tuned.argmax()
    return abs(own[position]) - abs(tuned[position])


def says_token(title: str, token: str) -> bool:
    "Decide whether a word begins with a token; of a later part of a word, whether one ends with it."
    part = re.escape(token.removeprefix("##"))
    pattern = rf"{part}\b" if token.startswith("##") else rf"\b{part}"
    return bool(re.search(pattern, title.lower()))


def ways_of(row):
    "Say how each statement goes in one set."
    ways = {"of": f"{row.queries} queries, `{row.profile}`: {row.corpus} ({row.encoder})"}
    for side, (statement, reverse) in STORY_SIDES.items():
        ways[side] = f"{which_way(row[statement], row[reverse])} ({row[statement]} and {row[reverse]})"
    return ways


def ranking_table(lists: dict[str, list[tuple[str, bool]]]) -> pd.DataFrame: # method -> titles; whether each is right
    "Put lists side by side, right titles marked."
    places = pd.RangeIndex(1, 1 + max(map(len, lists.values())), name="place")
    return pd.DataFrame({name: [f"✓ {title}" if is_right else title for title, is_right in titles]
                         for name, titles in lists.items()}, places)


def picked_cases(records: list[dict]) -> list[tuple[tuple, Query]]: # place of a set, and a query
    """Pick of each set the query with the largest rise of one token's importance from Base to plain fine-tuning.

    First seed; of planted ones those that say a causal word; none with a text that is not shown."""
    def rise(query):
        base, tuned = query["Base"], query[REFERENCE]
        position = raised(base, tuned)
        return tuned["importance"][position] - base["importance"][position]

    def is_shown(query):
        titles = [title for method in query.values() for title, _ in method["top"]]
        return any(query["Base"].get("causal", [True])) and is_decent(
            [query["Base"]["query"], *query["Base"]["relevant"], *titles])

    shown = {origin: [*filter(is_shown, queries)] for origin, queries in first_cases(records, *SHOWN).items()}
    return [(origin, max(queries, key=rise)) for origin, queries in shown.items() if queries]


def case_title(origin: tuple, query: Query) -> str: # of `picked_cases`
    """Say as Markdown how much of a case goes as the paper tells it, with the numbers, and which words are causal.

    The paper's story: fine-tuning loses right items; ITVReg brings some back, and a token's importance nearer to that
    of Base."""
    base = query["Base"]
    position = raised(base, query[REFERENCE])
    right = [sum(is_right for _, is_right in query[name]["top"]) for name in SHOWN]
    importance = [query[name]["importance"][position] for name in SHOWN]
    distance = np.abs(np.subtract(importance, importance[0])).round(2) # as printed below
    outcomes = [right[1] < right[0], right[0] > right[1] < right[2], distance[2] < distance[1]]
    numbers = "; ".join(f"{name} {n} and {share:.2f}" for name, n, share in zip(SHOWN, right, importance))
    text = (f"**{', '.join(origin)}: “{base['query']}”.** {sum(outcomes)} of {len(outcomes)} outcomes are as the paper "
            f"tells them. Right items of five, and importance of `{base['tokens'][position]}`: {numbers}")
    if "causal" in base:
        words = [f"`{word}`" for word, is_causal in zip(base["tokens"], base["causal"]) if is_causal]
        text += f". Causal words of the query: {', '.join(words)}"
    return f"{text}. Relevant: {'; '.join(base['relevant'])}."


@our_style()
def importance_plot(rows): # of one text: position, token, method, importance, causal (True, False, or None: not known)
    "Draw one row per method, tokens in the order of the text, slanted where they are long; a token may occur twice."
    table = rows.pivot(index="method", columns="position", values="importance")
    table = table.loc[rows.method.unique()]
    figure = canvas(.42 * len(table) + 1)
    ax = figure.subplots()
    sns.heatmap(table, ax=ax, annot=True, fmt=".2f", cmap="Blues", vmin=0, linewidths=1, cbar=False)
    ax.set(xlabel="", ylabel="")
    ax.set_yticklabels(table.index, rotation=0)
    tokens = rows.drop_duplicates("position").sort_values("position")
    longest = tokens.token.str.len().max()
    label_style = dict(rotation=30, ha="right") if longest * len(tokens) > 70 else {}
    labels = ax.set_xticklabels(tokens.token, **label_style)
    for label, causal in zip(labels, tokens.causal):
        if causal is not None and not causal:
            label.set(color="#a3123a", weight="bold")
            ax.set_xlabel("bold red: not causal", color="#a3123a")
    return figure


def show_titles(study):
    "Display the picked case of each set: what three methods put first, and how important each token of the query is."
    for origin, query in picked_cases(study.records):
        base = query["Base"]
        tokens = {"position": range(len(base["tokens"])), "token": base["tokens"], "causal": base.get("causal")}
        rows = pd.concat(pd.DataFrame(tokens | {"method": name, "importance": query[name]["importance"]})
                         for name in SHOWN)
        show(case_title(origin, query), ranking_table({name: query[name]["top"] for name in SHOWN}),
             importance_plot(rows), alt=f"Importance of every token of the query {base['query']}")


# ---------------------------------------------------------------- answers


def plain_text(study: Study) -> str:
    "Name what SCAN is compared with: plain fine-tuning, TANDA in the paper."
    return study.experiment.methods[0].name


ANSWER_CHARACTERS = 240 # characters of an answer in a table


def marked_answer(answer: str, is_right: bool) -> str:
    "Mark an answer, and cut it where it is long."
    mark = "✓" if is_right else "✗"
    return f"{mark} {shorten(answer, ANSWER_CHARACTERS, placeholder=' …')}"


def answer_counts(study: Study) -> pd.DataFrame: # one row per encoder, corpus and test
    """Count the questions that SCAN answers and plain fine-tuning does not (`won`), and the reverse (`lost`).

    With the first seed, of all and of those misled by overlap; `p` is of an exact sign test, two-sided."""
    rows = []
    base = plain_text(study)
    for (_, corpus, test), queries in first_cases(study.records, base, "SCAN").items():
        outcomes = [(query[base]["right"], query["SCAN"]["right"], query["SCAN"]["misled"]) for query in queries]
        plain, scan, is_misled = np.array(outcomes).T
        won, lost = scan & ~plain, plain & ~scan
        rows.append({"corpus": corpus, "test": test, "questions": len(won), "won": won.sum(), "lost": lost.sum(),
                     "p": sign_test(won.sum(), lost.sum()), "misled": is_misled.sum(),
                     "misled won": won[is_misled].sum(), "misled lost": lost[is_misled].sum()})
    return pd.DataFrame(rows)


WAYS = { # plain fine-tuning right, SCAN right -> whether the case goes as the paper tells it
    (False, True): YES,
    (True, False): f"{REVERSE}, plain fine-tuning alone is right",
    (True, True): "No, plain fine-tuning is right as well",
    (False, False): "No, SCAN is wrong as well",
}


ALIKE = .5 # of all words of two answers that both have


def likeness(case):
    "Measure how much of all words of the answer and of a right one both have, in [0, 1]."
    chosen, right = distinct_words(case["answer"]), distinct_words(case["relevant"])
    return len(chosen & right) / max(1, len(chosen | right))


def is_in_other_words(case):
    "Decide whether a right answer repeats fewer words of the question than the one that was put first."
    question = distinct_words(case["question"])
    repeated, by_chosen = (len(question & distinct_words(case[name])) for name in ("relevant", "answer"))
    return repeated < by_chosen


def error_rows(records):
    "Count the wrong answers of SCAN and their reasons; first seed."
    rows = []
    for (_, corpus, test), queries in first_cases(records, "SCAN").items():
        wrong = [query["SCAN"] for query in queries if not query["SCAN"]["right"]]
        other_words = [is_in_other_words(case) for case in wrong]
        confused = [likeness(case) >= ALIKE for case in wrong]
        by_all = sum(not any(case["right"] for case in query.values()) for query in queries)
        rows.append({
            "trained on": corpus, "set": test, "method": "SCAN", "questions": len(queries),
            "wrong": len(wrong), "other words": sum(other_words), "confused candidates": sum(confused),
            "neither": len(wrong) - np.logical_or(other_words, confused).sum(), "wrong by all methods": by_all})
    return pd.DataFrame(rows)


def show_answers(study: Study) -> None:
    "Display of each set the first question that only SCAN has right, and the first that only plain fine-tuning has."
    base = plain_text(study)
    for origin, queries in first_cases(study.records, base, "SCAN").items():
        rows = []
        for one, other in (("SCAN", base), (base, "SCAN")):
            for query in queries:
                question, misled = query[base]["question"], query[base]["misled"]
                row = {"question": question, "kind": f"{one} right, {other} wrong{'; misled by overlap' * misled}"}
                row |= {name: marked_answer(own["answer"], own["right"]) for name, own in query.items()}
                if query[one]["right"] > query[other]["right"] and is_decent(row.values()):
                    rows.append(row)
                    break
        show(f"**{', '.join(origin)}: SCAN and {base}**",
             pd.DataFrame(rows, columns=["question", "kind", base, "SCAN"]))


def printed_cases(study: Study) -> list[tuple[str, str, pd.DataFrame]]: # title; one of `WAYS`; what is put first
    "Put the answers of the reported cases beside what each method answers here; questions go by letters and digits."
    def letters(text):
        return "".join(filter(str.isalnum, text.lower()))

    base = plain_text(study)
    by_question = {letters(query[base]["question"]): query
                   for queries in first_cases(study.records, base, "SCAN").values() for query in queries}
    cases = []
    for table, printed in load_expected("scan").lists.items():
        ours = by_question.get(letters(printed.query))
        if not ours:
            continue
        way = WAYS[ours[base]["right"], ours["SCAN"]["right"]]
        rows = {"reported": [marked_answer(printed.rows[name][0], name in printed.right) for name in ("TANDA", "SCAN")],
                "ours": [marked_answer(ours[name]["answer"], ours[name]["right"]) for name in (base, "SCAN")]}
        answers = pd.DataFrame.from_dict(rows, orient="index", columns=[base, "SCAN"]).rename_axis("answers of")
        overlap = "misled by overlap" if ours["SCAN"]["misled"] else "not misled by overlap"
        title = f"**{table.replace('table', 'Table ')}: as reported? {way}.** “{printed.query}” ({overlap})"
        cases.append((title, way, answers))
    return cases


# ---------------------------------------------------------------- topics that are alike


def span(column):
    "Say the fewest and the most of the corpora, `20 to 839`."
    ends = dict.fromkeys(f"{end:,.0f}" for end in (column.min(), column.max()))
    return " to ".join(ends)


def leak_rows(records):
    "List topics of a test that are most like topics of training, what makes them so, and what is said on both sides."
    rows = []
    for record, leaks in extras(records, "leaks"):
        split = place(record)["method"]
        for leak in leaks:
            sides = {side: mark_words(leak[side], leak["words"]) for side in ("test", "training")}
            rows.append({"corpus": split, "topic of the test / of training":
                         f"{leak['test topic']} / {leak['training topic']}", "cosine": leak["cosine"]} | sides)
    return pd.DataFrame(rows).drop_duplicates() # leaks of a split are the same for every seed


def mark_words(text, words):
    "Put the shared words of a text in bold."
    parts = []
    for word in text.split():
        is_shared = word.strip(".,;:!?()\"'*").lower() in words
        parts.append(f"**{word}**" if is_shared else word.replace("*", ""))
    return " ".join(parts)


def first_of_each(leaks: pd.DataFrame) -> pd.DataFrame: # of `leak_rows`
    "Keep the topics of each corpus that are most alike, with their cosine as text."
    if leaks.empty:
        return leaks
    first = leaks.loc[leaks.groupby("corpus", sort=False).cosine.idxmax()]
    return first.assign(cosine=first.cosine.map("{:.2f}".format))


def drawn_split() -> tuple[pd.DataFrame, str]: # one row per part of the split; what is left out
    """Split synthetic authors, some of whom wrote more than others, as the paper does.

    Each part has its texts, authors and topics, and how many of its authors and topics also occur in training."""
    world = load_experiment("arr/figure02", "planted").world
    texts = planted_texts(world, "train")
    number = np.array([int(author.split()[-1]) for author in texts.author])
    is_in_pool = np.random.default_rng([world.seed, 11]).random(len(texts)) < 1 / (1 + number / 12)
    pool = texts.take(is_in_pool, name="planted authors")
    parts = paper_split(pool, .5, .5).parts()
    rows = []
    for name, part in parts.items():
        row = {"part": name, "texts": len(part)}
        for column in ("author", "topic"):
            members, in_training = set(getattr(part, column)), set(getattr(parts["train"], column))
            row |= {f"{column}s": len(members), f"{column}s also in training": len(members & in_training)}
        rows.append(row)
    used = {item for part in parts.values() for item in zip(part.author, part.topic, part.text)}
    unused = sum(item not in used for item in zip(pool.author, pool.topic, pool.text))
    note = (f"{len(pool):,} texts by {len(set(pool.author))} authors on {len(set(pool.topic))} topics; {unused:,} are "
            "left out.")
    return pd.DataFrame(rows), note
