"What it takes until something happens: imports and the help of the command, beside importing sentence-transformers. See README.md."
import resource
import subprocess
import sys

from common import compare, print_variants, run

THEIRS = "import sentence_transformers"
COMMAND = "from debias_nb.repro.entry import main; main()"
VARIANTS = { # what is timed -> what a fresh Python is given
    THEIRS: ["-c", THEIRS],
    "import debias_nb": ["-c", "import debias_nb"],
    "from debias_nb import Regularized": ["-c", "from debias_nb import Regularized"],
    "debias-nb --help": ["-c", COMMAND, "--help"],
}


def of_children() -> float:
    "CPU time of the processes that have ended, in seconds."
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def once(name: str) -> dict:
    "CPU time of a Python that does one thing and ends."
    start = of_children()
    subprocess.run([sys.executable, *VARIANTS[name]], check=True, stdout=subprocess.DEVNULL)
    return {"ms": 1000 * (of_children() - start)}


def measure(options) -> tuple[dict, dict]:
    "CPU time, which others disturb less than the clock's."
    found = compare(VARIANTS, once, THEIRS, options.repeats)
    print_variants("a fresh Python", found, {"CPU ms": "ms", "ratio to sentence-transformers": "ratio"})
    return {}, {"clock": "CPU time", "variants": found}


if __name__ == "__main__":
    sys.exit(run(__file__, __doc__, measure, 9))
