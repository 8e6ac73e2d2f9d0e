"What a person can paste of what a reader of files has said, and what comes of it."
import re
import shlex

from debias_nb.data.registry import DataError
from debias_nb.diagnosis.files.pairs_file import read_pairs_file

SAID = [] # by the readers, in the tests of this process


def ways(said, columns):
    "Yield what a message advises: options, or another source."
    words = {word for word in re.findall(r"'([^']*)' \(", said.partition("they are ")[2])}
    for names in re.findall(r"--columns ('[^']*'|[^\s;:]+)", said):
        yield {"columns": tuple(shlex.split(names.rstrip(";,"))[0].split(","))}
    for match in re.findall(r"--match (?!from)([^\s;]+)", said):
        yield from ({"match": word} for word in sorted(words)) if match == "WORD" else [{"match": match}]
    for least in re.findall(r"--match-from (\S+)", said):
        yield {"match_from": float(least)}
    if "--where COLUMN=VALUE" in said:
        column, values = re.search(r"not used: (\w+) \(([^)]*)\)", said).groups()
        # behind each stands how many rows have it
        yield from ({"where": f"{column}={value.rpartition(' ')[0]}"} for value in values.split(", "))
    for source in re.findall(r"e\.g\. (\S+:\w+)$", said):
        yield {"source": source}
    for source in re.findall(r"as in (\S+):COLUMN", said):
        yield from ({"source": f"{source}:{column}"} for column in columns)


def pasted(source, columns, options=None, steps=4):
    "Read a source, and as each advice says: (options, file), one for each way. A refusal without a way is a failure."
    options = options or {}
    try:
        file = read_pairs_file(source, **options)
    except DataError as e:
        said = str(e)
        found = list(ways(said, columns))
        assert found and steps, f"{options}: {said}"
        SAID.append(said)
        for way in found:
            more = {key: value for key, value in way.items() if key != "source"}
            yield from pasted(way.get("source", source), columns, options | more, steps - 1)
        return
    SAID.append(file.note or "")
    yield options, file


def counts(file):
    return file.form, int((file.labels > 0).sum()), int((file.labels == 0).sum())
