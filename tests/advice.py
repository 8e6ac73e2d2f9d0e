"What a person can paste of what a reader of files has said, and what comes of it."
import re
import shlex

from debias_nb.data.registry import DataError
from debias_nb.diagnosis.files.pairs_file import read_pairs_file

MESSAGES = [] # by the readers, in the tests of this process


def ways(message, columns):
    "Yield what a message advises: options, or another source."
    words = {word for word in re.findall(r"'([^']*)' \(", message.partition("they are ")[2])}
    for names in re.findall(r"--columns ('[^']*'|[^\s;:]+)", message):
        yield {"columns": tuple(shlex.split(names.rstrip(";,"))[0].split(","))}
    for match in re.findall(r"--match (?!from)([^\s;]+)", message):
        yield from ({"match": word} for word in sorted(words)) if match == "WORD" else [{"match": match}]
    for least in re.findall(r"--match-from (\S+)", message):
        yield {"match_from": float(least)}
    if "--where COLUMN=VALUE" in message:
        column, values = re.search(r"not used: (\w+) \(([^)]*)\)", message).groups()
        # behind each stands how many rows have it
        yield from ({"where": f"{column}={value.rpartition(' ')[0]}"} for value in values.split(", "))
    for source in re.findall(r"e\.g\. (\S+:\w+)$", message):
        yield {"source": source}
    for source in re.findall(r"as in (\S+):COLUMN", message):
        yield from ({"source": f"{source}:{column}"} for column in columns)


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
