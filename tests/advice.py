"What a person can paste of what a reader of files has said, and what comes of it."
import re
import shlex

from debias_nb.data.registry import DataError
from debias_nb.diagnosis.files.pairs_file import read_pairs_file

PROSE = "a|alone|and|chooses|in|is|or|say|takes|the|to|too|with" # words after an option that are no value of it
MESSAGES = [] # by the readers, in the tests of this process


def options_in(message):
    "Yield the options that a message advises, with the values that it names."
    for option, value in re.findall(rf"(--[a-z][\w-]*) (?!(?:{PROSE})\b)('[^']*'|[^\s;()]+)", message):
        [value] = shlex.split(value.rstrip(".,:"))
        if value == "WORD":
            words = re.findall(r"'([^']*)' \(", message.partition("they are ")[2])
            yield from ((option, word) for word in words)
        elif value == "COLUMN=VALUE":
            column, values = re.search(r"not used: (\w+) \(([^)]*)\)", message).groups()
            # behind each stands how many rows have it
            yield from ((option, f"{column}={row.rpartition(' ')[0]}") for row in values.split(", "))
        elif not value.isupper(): # which is a place for what only a user knows
            yield option, value


def sources_in(message, columns):
    "Yield the parts of a file that a message names: a split, or each of its columns."
    for source in re.findall(r"(?:e\.g\.|as in) ('[^']+'|\S+:\S+)$", message):
        file, _, part = shlex.split(source)[0].rpartition(":")
        yield from (f"{file}:{name}" for name in (columns if part == "COLUMN" else [part]))


def ways(message, columns):
    "Yield what a message advises: options, or another source."
    for option, value in options_in(message):
        name = option[2:].replace("-", "_")
        if name == "columns":
            value = tuple(value.split(","))
        yield {name: float(value) if name == "match_from" else value}
    yield from ({"source": source} for source in sources_in(message, columns))


def follow(source, columns, options=None, steps=4):
    "Read a source, and as each advice says: (options, file), one for each way. A refusal without a way is a failure."
    options = options or {}
    try:
        file = read_pairs_file(source, **options)
    except DataError as e:
        message = str(e)
        advice = list(ways(message, columns))
        assert advice and steps, f"{options}: {message}"
        MESSAGES.append(message)
        for way in advice:
            changes = {key: value for key, value in way.items() if key != "source"}
            yield from follow(way.get("source", source), columns, options | changes, steps - 1)
        return
    MESSAGES.append(file.note or "")
    yield options, file


def counts(file):
    return file.form, int((file.labels > 0).sum()), int((file.labels == 0).sum())
