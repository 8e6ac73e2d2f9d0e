"""Whatever a refusal advises is done: the command, option, value or line of Python that it prints.

Inputs of every door that are refused are drawn anew at each run. What is advised is pasted, until it is read, or until
nothing is advised any more. The seed stands in each failure; `DEBIAS_NB_DRAWS=seed` draws the same again."""
import json
import random
import re
from contextlib import chdir

import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from debias_nb.commands.cli import app
from advice import options_in, sources_in
from harness import ROOT, SEED
from made import some_pairs, table
from test_drawn_inputs import FAMILIES, labels_in_words, save, text_of

DRAWS = 4 # of each family
COMMANDS = get_command(app).commands
QUERIES, TEXTS = ([f"{side}{i}" for i in range(20)] for side in "qd")


# What is drawn: the arguments of a command, and whether it is read in the end

def of_test(file, *options, command="diagnose"):
    models = [] if command == "diagnose-scores" else ["--base", "BASE", "--tuned", "TUNED"]
    return [command, *models, "--test", f"new={file}", *options]


def scores_of(file):
    base = file.with_name("base.csv")
    pd.DataFrame({"query_id": QUERIES, "doc_id": TEXTS, "score": 1.}).to_csv(base, index=False)
    return of_test("JUDGED", "--scores", f"base={base}", "--scores", f"tuned={file}", command="diagnose-scores")


def only_file(folder):
    [file] = [path for path in folder.iterdir() if path.is_file()]
    return file


def of_family(family):
    "Draw what a family of inputs has that is refused; whether it can be read, its own test says."
    def draw(rng, folder):
        while not [*folder.iterdir()]: # some are tables in memory
            family(rng, folder, True)
        if family.__name__ == "results":
            return ["diagnose-results", "--base", str(folder), "--tuned", str(folder)], False
        file = only_file(folder)
        if family.__name__ == "texts":
            return ["diagnose-texts", "--texts", str(file), "--base", "BASE", "--tuned", "TUNED"], False
        if family.__name__ == "runs":
            return scores_of(file), False
        return of_test(file), family in (labels_in_words,)
    draw.__name__ = family.__name__
    return draw


def name_of(rng):
    "A name of a column that says nothing; some have a blank or another sign."
    return "".join(rng.sample("bcdfgklmprst", 5)) + rng.choice(("", "", " x", "-y", ".z", "_w"))


def rows_of(rng, folder, make):
    "Write 40 rows, some with further columns, in one of the formats."
    rows = [make(number, number % 2) for number in range(40)]
    for name in [name_of(rng) for _ in range(rng.randrange(3))]:
        rows = [row | {name: f"{number}x"} for number, row in enumerate(rows)]
    return save(rng, folder, rows)


def names_that_say_nothing(rng, folder):
    left, right, label = (name_of(rng) for _ in range(3))
    values = rng.choice(((0, 1), ("yes", "no"), ("red", "green")))
    return of_test(rows_of(rng, folder, lambda i, y: {left: text_of(rng, i, "a"), right: text_of(rng, i, "b"),
                                                      label: values[y]})), True


def several_readings(rng, folder):
    names = ("sentence1", "sentence2", "anchor", "positive")
    return of_test(rows_of(rng, folder, lambda i, y: {name: text_of(rng, i, name) for name in names}
                           | {"negative": text_of(rng, i, "c"), "label": y})), True


def numbers_beside_matches(rng, folder):
    name = name_of(rng)
    return of_test(rows_of(rng, folder, lambda i, y: {"anchor": text_of(rng, i, "a"), "positive": text_of(rng, i, "b"),
                                                      name: y})), True


def grades(rng, folder):
    maximum = rng.choice((1, 4, 5, 100))
    return of_test(rows_of(rng, folder, lambda i, y: {"left": text_of(rng, i, "a"), "right": text_of(rng, i, "b"),
                                                      "label": round(maximum * (i % 20) / 20, 3)})), True


def lists_of_texts(rng, folder):
    names = rng.sample(("query", "docs", name_of(rng)), 2) + [rng.choice(("label", "labels"))]
    path = folder / "a.jsonl"
    rows = [dict(zip(names, (f"q {i}", [text_of(rng, i, side) for side in "abc"], [0, 1, 0]))) for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return of_test(path), True


def written_by_pandas(rng, folder):
    path = folder / "a b.json"
    some_pairs(40).to_json(path, orient="split")
    return of_test(path), True


def several_splits(rng, folder):
    columns = some_pairs(40).to_dict("list")
    path = folder / "a.json"
    path.write_text(json.dumps({name_of(rng).replace(".", ""): columns for _ in range(2)}))
    return of_test(path), True


def one_column_of_many(rng, folder):
    path = folder / "t.csv"
    names = [name_of(rng) for _ in range(rng.randrange(2, 4))]
    pd.DataFrame([{name: text_of(rng, i, name) for name in names} for i in range(40)]).to_csv(path, index=False)
    return ["diagnose-texts", "--texts", str(path), "--base", "BASE", "--tuned", "TUNED"], True


def answers_of_an_index(rng, folder):
    path = folder / "it's.jsonl"
    hits = [{"hits": {"hits": [{"_id": text, "_score": rng.random()} for text in rng.sample(TEXTS, 3)]}}
            for _ in QUERIES]
    path.write_text("".join(json.dumps(line) + "\n" for line in hits))
    return scores_of(path), True


def slip(rng, word):
    "A word with a letter that is gone, or comes twice."
    place = rng.randrange(word.startswith("--") + 2, len(word))
    return word[:place] + rng.choice(("", 2 * word[place])) + word[place + 1:]


def slips(rng, folder):
    "A command of which one word is written wrong."
    file = folder / "a.csv"
    some_pairs(40).assign(kind=lambda frame: ["a", "b"] * (len(frame) // 2)).to_csv(file, index=False)
    args = of_test(file, "--metric", "accuracy", "--group", "kind", "--where", "kind=a", "--columns",
                   "left,right,label", "--out", str(folder / "out"))
    place = rng.choice([0, 1, 3, 5, 7, 8, 10, 12])
    wrong = rng.choice(re.findall(r"\w{3,}", args[place]) or [args[place]])
    return args[:place] + [args[place].replace(wrong, slip(rng, wrong), 1)] + args[place + 1:], True


def slips_of_a_comparison(rng, folder):
    file = folder / "a.csv"
    some_pairs(40).to_csv(file, index=False)
    word = rng.choice(("outreg", "itvreg", "wise-ft", "simcse", "maskreg"))
    methods = rng.choice((f"base,plain,{slip(rng, word)}", "base,plain,outreg-texts", f"base,{word}"))
    return ["compare", "--base", "BASE", "--train", str(file), "--test", f"new={file}", "--methods", methods,
            "--seeds", "1", "--epochs", "1"], False


def slips_of_experiments(rng, folder):
    name, profile = "itvreg/table03", rng.choice(("small", "planted"))
    options = ["--profile", profile] + rng.choice((
        ["-p", f"{slip(rng, 'methods')}=[OutReg]"], ["-p", f"methods=[{slip(rng, 'OutReg')}]"],
        [slip(rng, "--workers"), "1"]))
    if rng.random() < .2:
        options = ["--profile", slip(rng, profile)]
    if rng.random() < .4:
        name, options = rng.choice((slip(rng, "itvreg"), "itvreg")) + "/" + slip(rng, "table03"), []
    return ["run", name, *options, "--dry-run"], True


def queries_without_a_match(rng, folder):
    path = folder / "a.json"
    path.write_text(json.dumps({
        "queries": {query: f"red {query}" for query in QUERIES}, "corpus": {text: f"lamp {text}" for text in TEXTS},
        "relevant_docs": {query: {text: int(rng.random() < .8)} for query, text in zip(QUERIES, TEXTS)}
        | {"q0": {"d0": 0}}}))
    return of_test(path), True


def values_of_options(rng, folder):
    "A command of which one option has a value that it cannot have."
    file = folder / "a.csv"
    some_pairs(40).to_csv(file, index=False)
    option = rng.choice(("--metric ndcg10", "--metric main_score", "--prompts query", "--margin 0", "--sample 3",
                         "--seed -1", "--match-from 7", "--match yes", "--where label", "--where label=7",
                         "--columns left", "--fail-on better", "--like old", "--base potion-base-3M", f"--out {file}",
                         f"--train {folder}/b.csv", f"--texts {file}", "--threshold high"))
    return with_option(of_test(file), *option.split()), False


KINDS = [names_that_say_nothing, several_readings, numbers_beside_matches, grades, lists_of_texts, written_by_pandas,
          several_splits, one_column_of_many, answers_of_an_index, queries_without_a_match, values_of_options, slips,
          slips_of_a_comparison, slips_of_experiments]


# What is done with what is said

def with_option(args, option, value):
    "The arguments with a value of an option, in place of the one before."
    if option in args:
        place = args.index(option)
        return args[:place] + [option, value] + args[place + 2:]
    return [*args, option, value]


def offers(args, message):
    "Yield the arguments with each word that is offered in place of the one that is not known."
    for part, names in re.findall(
            r"([^;(]*)(?:[;(.] ?(?:[Dd]id you mean|Possible options:|known:)| is not one of) ([^?;)]*)", message):
        choices = re.findall(r"'([^']+)'|(--[\w-]+)", names)
        wrong = re.findall(r"'([^']+)'|(--[\w-]+)", part)
        for word in ["".join(word) for word in wrong[-1:]]:
            pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
            for place in [place for place, arg in enumerate(args) if pattern.search(arg)][-1:]:
                for new in map("".join, choices):
                    yield args[:place] + [pattern.sub(new, args[place])] + args[place + 1:]


def next_commands(args, message, names): # names: of the columns that the file has
    "Yield the arguments as a message advises them; lines of Python are run."
    yield from offers(args, message)
    if line := re.search(r"This makes .*?: (import .*)|this makes .*?: (import .*)", message):
        code = line[1] or line[2]
        exec(code, {"queries": QUERIES})
        [output] = re.findall(r"to_csv\('([^']+)'", code)
        wrong = next(arg for arg in args if "=" in arg and arg.partition("=")[2] in message)
        yield [arg.replace(wrong.partition("=")[2], output) for arg in args]
    for code in re.findall(r"frame\.explode\(\[.*?\]\)", message):
        file = args[args.index("--test") + 1].partition("=")[2]
        frame = eval(code, {"frame": pd.read_json(file, lines=file.endswith("l"))})
        frame.to_csv("exploded.csv", index=False)
        yield with_option(args, "--test", "new=exploded.csv")
    yield from (with_option(args, *option) for option in options_in(message))
    for source in sources_in(message, names):
        yield with_option(args, *(("--texts", source) if "--texts" in args else ("--test", f"new={source}")))


def check_names(args, message, content):
    "Fail where a message names an option that the command does not have, or a column that the file does not have."
    commands = [COMMANDS[name] for name in [args[0], *re.findall(r"`debias-nb ([a-z-]+)", message)] if name in COMMANDS]
    options = {option for command in commands for parameter in command.params for option in parameter.opts}
    missing = {*re.findall(r"(?<![\w-])--[a-z][\w-]*", message)} - options - {*args, "--help"}
    assert not missing, f"{missing} of no command: {message}"
    for listing in re.findall(r"(?<!no )(?<!one )(?<!-)columns? ('[^']+'(?:(?:, | and )'[^']+')*)", message):
        for name in re.findall(r"'([^']+)'", listing):
            assert name.encode() in content, f"column {name!r} is in no file"


def heed(args, content, previous="", steps=5):
    "Run a command, and all that it advises. Yield what came in the end: `read`, or a message without advice."
    answer = CliRunner().invoke(app, args)
    message = " ".join(answer.output.split())
    assert answer.exception is None or isinstance(answer.exception, SystemExit), repr(answer.exception)
    if answer.exit_code == 0:
        yield "read"
        return
    assert answer.exit_code == 2 and message and message != previous, f"{args}: {answer.exit_code}, again: {message}"
    check_names(args, message, content)
    header, _, _ = content.partition(b"\n")
    ways = [*next_commands(args, message, header.decode("utf-8", "ignore").split(","))]
    assert steps or not ways, f"no end: {message}"
    if not ways:
        yield message
    for way in ways:
        yield from heed(way, content, message, steps - 1)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    "What all commands are given: two encoders, and a test of a search."
    folder = tmp_path_factory.mktemp("given")
    paths = {}
    for seed, name in enumerate(("BASE", "TUNED")):
        paths[name] = table(folder, seed).rename(folder / name)
    (folder / "judged.json").write_text(json.dumps({
        "queries": {query: f"red {query}" for query in QUERIES}, "corpus": {text: f"lamp {text}" for text in TEXTS},
        "relevant_docs": {query: {text: 1} for query, text in zip(QUERIES, TEXTS)}}))
    return {name: str(path) for name, path in paths.items()} | {"new=JUDGED": f"new={folder / 'judged.json'}"}


@pytest.mark.parametrize("family", [*map(of_family, FAMILIES[:-1]), *KINDS], ids=lambda family: family.__name__)
def test_what_is_advised_is_read_or_honestly_refused(family, inputs, tmp_path):
    for number in range(DRAWS):
        folder = tmp_path / str(number)
        folder.mkdir()
        args, can_be_read = family(random.Random(f"{SEED} {family.__name__} {number}"), folder)
        args = [inputs.get(arg, arg) for arg in args]
        content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        with chdir(ROOT if args[0] == "run" else folder):
            try:
                came = [*heed(args, content)]
            except AssertionError as e:
                raise AssertionError(f"DEBIAS_NB_DRAWS={SEED} draws again {number}: {e}") from None
        assert not can_be_read or "read" in came, (SEED, number, args, came)
