"""The papers' case studies, which a rule picks, with counts: titles and their tokens, answers, and similar topics."""
import re
from collections.abc import Collection
from operator import itemgetter
from textwrap import shorten

import numpy as np
import pandas as pd
import seaborn as sns

from ..data.answers import distinct_words
from ..data.author_splits import paper_split
from ..data.authors import planted_texts
from ...runs.config import load_experiment
from .details import extras, first_cases, sort_methods, is_decent, place, sign_test, which_way
from .expected import load_expected
from .frame import Study
from .plots import canvas, check_frame, our_style
from .tables import show


# ---------------------------------------------------------------- titles and their tokens


CASE_COUNTS = (
    "encoder", "corpus", "test", "method", "queries", "lost", "kept", "gained", "missed", "nearer", "farther",
    "share_nearer", "share_farther",
    "tuned_rise", "rise", "says_newly", "says_no_more", "says",
)


def case_counts(records: list[dict]) -> pd.DataFrame: # one row per encoder, corpus, evaluation set and further method
    """Count the queries that tell what the paper prints, and those that tell its reverse; first seed.

    By the first item: of those that Base has right and plain fine-tuning wrong (`lost`) the method has some right
    (`kept`); of those that it is the other way round (`gained`) it has some wrong (`missed`). By the token that plain
    fine-tuning raised most: with the method its importance is `nearer` to that of Base than with plain fine-tuning, or
    `farther`, the same by its share of the query's importance; `rise` is the mean above Base with the method,
    `tuned_rise` with plain fine-tuning. The first item says it with plain fine-tuning and not with Base (`says_newly`),
    or the other way round (`says_no_more`); with the method: `says`."""
    rows = []
    for place_of_set, methods in first_cases(records).items():
        if not {"Base", "Finetuned"} <= methods.keys():
            continue
        right = pd.DataFrame({name: [case["top"][0][1] for case in cases] for name, cases in methods.items()})
        rises = pd.DataFrame({name: rises_of(methods, name) for name in methods})
        of_share = pd.DataFrame({name: rises_of(methods, name, as_share=True) for name in methods})
        says = pd.DataFrame({name: says_token(methods, name) for name in methods})
        is_lost = right["Base"] & ~right["Finetuned"]
        is_gained = right["Finetuned"] & ~right["Base"]
        for name in right.columns.drop(["Base", "Finetuned"]):
            row = dict(zip(CASE_COUNTS, (*place_of_set, name))) | dict(queries=len(right))
            row |= dict(lost=is_lost.sum(), kept=(is_lost & right[name]).sum())
            row |= dict(gained=is_gained.sum(), missed=(is_gained & ~right[name]).sum())
            for start, table in (("", rises), ("share_", of_share)):
                distance = table[name].abs() - table["Finetuned"].abs()
                row |= {f"{start}nearer": (distance < 0).sum(), f"{start}farther": (distance > 0).sum()}
            row |= dict(tuned_rise=rises["Finetuned"].mean(), rise=rises[name].mean())
            row |= dict(says_newly=(says["Finetuned"] > says["Base"]).sum(),
                        says_no_more=(says["Finetuned"] < says["Base"]).sum())
            rows.append(row | dict(says=says[name].sum()))
    return pd.DataFrame(rows, columns=CASE_COUNTS)


def rises_of(methods: dict[str, list[dict]], name: str, as_share: bool = False) -> list[float]: # a query
    "Say how far a method has raised the token above Base that plain fine-tuning raised most."
    out = []
    for cases in zip(methods["Base"], methods["Finetuned"], methods[name]):
        base, tuned, values_of_method = (np.array(case["importance"]) for case in cases)
        if as_share:
            base, tuned, values_of_method = (values / values.sum() for values in (base, tuned, values_of_method))
        position = (tuned - base).argmax()
        out.append(values_of_method[position] - base[position])
    return out


def says_token(methods: dict[str, list[dict]], name: str) -> list[bool]: # a query
    """Decide whether a word of the first item begins with the token that plain fine-tuning raised most.

    Of a later part of a word: whether one ends with it."""
    out = []
    for base, tuned, case in zip(methods["Base"], methods["Finetuned"], methods[name]):
        token = base["tokens"][np.subtract(tuned["importance"], base["importance"]).argmax()]
        part = re.escape(token.removeprefix("##"))
        pattern = rf"{part}\b" if token.startswith("##") else rf"\b{part}"
        out.append(bool(re.search(pattern, case["top"][0][0].lower())))
    return out


STORY_SIDES = { # what the paper tells -> counts of queries that go so, and of those that go the other way round
    "fine-tuning puts items first that say the raised token": ("says_newly", "says_no_more"),
    "fine-tuning loses right first items": ("lost", "gained"),
    "the story is told more often than its reverse": ("kept", "missed"),
    "ITVReg brings importance back": ("nearer", "farther"),
    "ITVReg brings its share of the query's importance back": ("share_nearer", "share_farther"),
}


RARE = .05 # of the queries


def ways_of(row):
    "Say how each statement goes in one set."
    ways = {"of": f"{row.queries} queries, `{row.profile}`: {row.corpus} ({row.encoder})"}
    for side, (statement, reverse) in STORY_SIDES.items():
        ways[side] = f"{which_way(row[statement], row[reverse])}: {row[statement]} and {row[reverse]}"
    return ways


def ranking_table(lists: dict[str, list[str]]) -> pd.DataFrame:
    "Put lists side by side."
    places = pd.RangeIndex(1, 1 + max(map(len, lists.values())), name="place")
    return pd.DataFrame(lists, places)


def printed_lists(example) -> pd.DataFrame: # as `case_table`
    "Tabulate what a paper prints, marked where a title says what it is to be about."
    lists = {}
    for name in sort_methods(example.rows):
        lists[name] = [f"✓ {title}" if example.about and example.about in title.lower() else title
                       for title in example.rows[name]]
    return ranking_table(lists)


def picked_cases(
    records: list[dict],
    count: int = 2, # of an encoder, corpus and evaluation set
# place, query, tokens, relevant, causal (None: not known), rise, position and token, methods: name -> case
) -> list[dict]:
    """Pick the queries with the largest rise of one token's importance from Base to plain fine-tuning; first seed.

    Of planted ones those that say a causal word; none with a text that is not shown."""
    out = []
    for origin, methods in first_cases(records).items():
        if {"Base", "Finetuned"} <= methods.keys():
            queries = [dict(zip(methods, of_query)) for of_query in zip(*methods.values())]
            cases = [case_of(query) | {"place": origin} for query in queries
                     if any(query["Base"].get("causal", [True]))]
            candidates = [case for case in cases if is_decent(case_texts(case))]
            out += sorted(candidates, key=itemgetter("rise"), reverse=True)[:count]
    return out


def case_of(methods: dict[str, dict]) -> dict:
    "Return one case, with what each method makes of it."
    case = {"causal": None} | methods["Base"]
    rises = np.subtract(methods["Finetuned"]["importance"], case["importance"])
    position = int(rises.argmax())
    return case | dict(rise=float(rises[position]), position=position, token=case["tokens"][position], methods=methods)


def case_texts(case: dict) -> list[str]: # of `picked_cases`
    "List all texts that a page shows of a case."
    titles = [title for method in case["methods"].values() for title, _ in method["top"]]
    return [case["query"], *case["relevant"], *titles]


def case_title(case: dict) -> str: # of `picked_cases`
    """Say as Markdown whether the case goes as the paper tells it, with the numbers, and which words are causal.

    The paper's story: fine-tuning loses right items; ITVReg brings some back, and a token's importance nearer to that
    of Base."""
    methods_of_case = [name for name in ("Base", "Finetuned", "ITVReg") if name in case["methods"]]
    right = [sum(is_right for _, is_right in case["methods"][name]["top"]) for name in methods_of_case]
    importance = [case["methods"][name]["importance"][case["position"]] for name in methods_of_case]
    outcomes = [right[1] < right[0]]
    if "ITVReg" in methods_of_case:
        distance = np.abs(np.subtract(importance, importance[0])).round(2) # as printed below
        outcomes += [right[0] > right[1] < right[2], bool(distance[2] < distance[1])]
    way = ("As the paper tells it" if all(outcomes) else "In part as the paper tells it" if any(outcomes)
           else "Against the paper")
    origin = ", ".join(case["place"])
    numbers = "; ".join(f"{name} {n} and {share:.2f}" for name, n, share in zip(methods_of_case, right, importance))
    text = (f"**{way}.** {origin}: “{case['query']}”. Right items of five, and importance of `{case['token']}`: "
            f"{numbers}")
    if case["causal"] is not None:
        words = [f"`{word}`" for word, is_causal in zip(case["tokens"], case["causal"]) if is_causal]
        text += f". Causal words of the query: {', '.join(words)}"
    return f"{text}. Relevant: {'; '.join(case['relevant'])}."


def case_table(case: dict) -> pd.DataFrame: # the first five items down, three methods across, right ones marked
    "Tabulate what each method puts first."
    lists = {}
    for name in [name for name in ("Base", "Finetuned", "ITVReg") if name in case["methods"]]:
        method = case["methods"][name]
        lists[name] = [f"✓ {title}" if right else title for title, right in method["top"]]
    return ranking_table(lists)


def case_importance(case: dict) -> pd.DataFrame: # position, token, causal, method, importance
    "Tabulate the importance of every token of the query, to three methods."
    importances = pd.DataFrame({name: method["importance"] for name, method in case["methods"].items()})
    method_names = importances.columns.intersection(["Base", "Finetuned", "ITVReg"], sort=False)
    tokens = pd.DataFrame({"position": importances.index, "token": case["tokens"], "causal": case["causal"]})
    return tokens.join(importances[method_names]).melt(list(tokens), var_name="method", value_name="importance")


@our_style()
def importance_plot(frame): # of one text: position, token, method, importance, causal (True, False, or None: not known)
    "Draw one row per method, tokens in the order of the text, slanted where they are long; a token may occur twice."
    rows = check_frame(frame, ["position", "importance"])
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


def show_titles(study, count):
    "Display the picked cases of each set."
    for case in picked_cases(study.records, count):
        alt = f"Importance of every token of the query {case['query']}"
        show(case_title(case), case_table(case), importance_plot(case_importance(case)), alt=alt)


# ---------------------------------------------------------------- answers


def plain_text(study: Study) -> str:
    "Name what SCAN is compared with: plain fine-tuning, TANDA in the paper."
    return study.experiment.methods[0].name


ANSWER_CHARACTERS = 240 # characters of an answer in a table


def answer_rows(cases: dict[str, list[dict]]) -> pd.DataFrame: # cases: one of `first_cases`; question, kind, methods
    "List every question, whether overlap misleads, and the candidate that each method puts first."
    rows = pd.DataFrame(next(iter(cases.values())))
    rows["kind"] = np.where(rows.misled, "; misled by overlap", "") # so of every method
    for name, of_method in cases.items():
        rows[name] = [marked_answer(case["answer"], case["right"]) for case in of_method]
    return rows[["question", "kind", *cases]]


def marked_answer(answer: str, is_right: bool) -> str:
    "Mark an answer, and cut it where it is long."
    mark = "✓" if is_right else "✗"
    return f"{mark} {shorten(answer, ANSWER_CHARACTERS, placeholder=' …')}"


def right_alone(
    cases: dict[str, list[dict]], # one of `first_cases`
    method: str, reference: str,
) -> pd.DataFrame:
    """List the questions that a method answers and another one does not, as `answer_rows`.

    Raises `KeyError` for a method that is not there."""
    rows = answer_rows(cases)
    is_alone = [a["right"] > b["right"] for a, b in zip(cases[method], cases[reference])]
    return rows[is_alone].assign(kind=f"{method} right, {reference} wrong" + rows.kind)


ANSWER_COUNTS = ("encoder", "corpus", "test", "method", "questions", "won", "lost", "p", "misled", "misled_won",
                 "misled_lost")


def answer_counts(
    records: list[dict], reference: str,
) -> pd.DataFrame: # one row per encoder, corpus, test and further method
    """Count the questions that a method answers and the reference does not (`won`), and the reverse (`lost`).

    With the first seed, of all and of those misled by overlap; `p` is of an exact sign test, two-sided."""
    rows = []
    for origin, cases in first_cases(records).items():
        right = pd.DataFrame({name: [case["right"] for case in method_cases] for name, method_cases in cases.items()})
        if reference not in right:
            continue
        is_misled = np.array([case["misled"] for case in cases[reference]])
        for name in right.columns.drop(reference):
            won = right[name] & ~right[reference]
            is_lost = right[reference] & ~right[name]
            row = dict(zip(ANSWER_COUNTS, (*origin, name))) | dict(questions=len(right))
            row |= dict(won=won.sum(), lost=is_lost.sum(), p=sign_test(won.sum(), is_lost.sum()))
            row |= dict(misled=is_misled.sum(), misled_won=won[is_misled].sum(), misled_lost=is_lost[is_misled].sum())
            rows.append(row)
    return pd.DataFrame(rows, columns=ANSWER_COUNTS)


def printed_cases(
    records: list[dict],
    lists: dict[str, object], # of a paper
) -> dict[str, dict[str, dict]]: # table -> method -> case
    "Find the questions of printed tables that are on record, found by their letters and digits; first seed."
    tables_of_query = {letters_of(printed_list.query): table for table, printed_list in lists.items()}
    rows_of_case = {}
    for cases in first_cases(records).values():
        for of_methods in zip(*cases.values()):
            table = tables_of_query.get(letters_of(of_methods[0]["question"]))
            if table:
                rows_of_case[table] = dict(zip(cases, of_methods))
    return rows_of_case


def letters_of(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


STORY = "as the paper tells it"


WAYS = { # plain fine-tuning right, SCAN right
    (False, True): STORY,
    (True, False): "against the paper, plain fine-tuning alone is right",
    (True, True): "not as the paper tells it, plain fine-tuning is right as well",
    (False, False): "not as the paper tells it, SCAN is wrong as well",
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
    "Count the wrong answers of each method and their reasons; first seed."
    rows = []
    for (_, corpus, test), cases in first_cases(records).items():
        for method, method_cases in cases.items():
            wrong = [case for case in method_cases if not case["right"]]
            other_words = [is_in_other_words(case) for case in wrong]
            alike = [likeness(case) >= ALIKE for case in wrong]
            outcomes = ([case["right"] for case in answers] for answers in cases.values())
            by_all = sum(not any(of_question) for of_question in zip(*outcomes))
            rows.append({
                "trained on": corpus, "set": test, "method": method,
                "questions": len(method_cases), "wrong": len(wrong), "other words": sum(other_words),
                "confused candidates": sum(alike), "neither": len(wrong) - np.logical_or(other_words, alike).sum(),
                "wrong by all methods": by_all})
    return pd.DataFrame(rows)


def show_answers(
    study: Study,
    count: int = 2, # questions of a kind
    methods: Collection[str] | None = None, # None: all
) -> None:
    "Display questions won and lost, set by set."
    base = plain_text(study)
    for origin, cases in first_cases(study.records).items():
        for method in [name for name in methods or cases if name != base and {name, base} <= cases.keys()]:
            parts = []
            for selection in (right_alone(cases, method, base), right_alone(cases, base, method)):
                parts.append(selection[selection.apply(is_decent, axis=1)].head(count))
            show(f"**{', '.join(origin)}: {method} and {base}**", pd.concat(parts)[["question", "kind", base, method]])


def told_of(study: Study) -> dict[str, str]: # printed table -> one of `WAYS`
    "Say how each printed case goes here."
    cases = printed_cases(study.records, load_expected("scan").lists)
    base = plain_text(study)
    ways = {}
    for table, answers in cases.items():
        if {base, "SCAN"} <= answers.keys():
            ways[table] = WAYS[answers[base]["right"], answers["SCAN"]["right"]]
    return ways


def count_ways(counts: pd.DataFrame) -> tuple[int, int, int]: # counts: of `answer_counts`
    "Count the sets in which SCAN goes as the paper tells it, those in which it goes against it, and all of them."
    went = [which_way(row.won, row.lost) for row in counts[counts.method == "SCAN"].itertuples()]
    return went.count(STORY), sum(way.startswith("against") for way in went), len(went)


def printed_answers(study: Study) -> dict[str, pd.DataFrame]: # title -> what is put first, in print and here
    "Put the printed cases beside what each method answers here."
    lists = load_expected("scan").lists
    base, cases = plain_text(study), printed_cases(study.records, lists)
    tables = {}
    for table, way in told_of(study).items():
        printed, answers_here = lists[table], cases[table]
        of_paper = {}
        for method, display_name in {"TANDA": base, "SCAN": "SCAN"}.items():
            of_paper[display_name] = marked_answer(printed.rows[method][0], method in printed.right)
        of_runs = {}
        for method in answers_here.keys() & of_paper.keys():
            case = answers_here[method]
            of_runs[method] = marked_answer(case["answer"], case["right"])
        rows = {"reported": of_paper, "ours": of_runs}
        answers = pd.DataFrame.from_dict(rows, orient="index", columns=list(of_paper))
        overlap = "misled by overlap" if answers_here["SCAN"]["misled"] else "not misled by overlap"
        tables[f"**{table.replace('table', 'Table ')}: {way}.** “{printed.query}” ({overlap})"] = answers.rename_axis(
            "answers of")
    return tables


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
            words = leak["words"]
            rows.append({
                "corpus": split,
                "topic of the test / of training": f"{leak['test topic']} / {leak['training topic']}",
                "cosine": leak["cosine"],
                "shared words": ", ".join(words),
                "test": mark_words(leak["test"], words),
                "training": mark_words(leak["training"], words),
            })
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
    return first.assign(cosine=first.cosine.map("{:.2f}".format)).drop(columns="shared words")


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
