"""Write what was measured beside what was meant, into bench/README.md: `python bench/table.py`.

Each row of aims.yaml is a ratio of two measurements in one run, the median over rounds with quartiles. A record that
other processes disturbed is shown as such and counts as not measured."""
import json
import re
from pathlib import Path

import yaml

BENCH = Path(__file__).parent


def measured(record: dict, place: list[str]) -> dict[str, float] | None: # None: of a size that nobody asked for
    "Read a number of a record: its median, and quartiles where it has any."
    for key in place:
        if key.isdigit() and key not in record:
            return None
        record = record[key]
    return record if isinstance(record, dict) else {"median": record}


def row_of(aim: dict, record: dict) -> str:
    "Return a line of the table."
    target = f"at most {aim['most']:g}" if "most" in aim else f"at least {aim['least']:g}"
    ratio = measured(record, aim["at"])
    if record.get("warning") or ratio is None:
        return f"| {aim['asks']} | | {target} | not measured undisturbed |"
    quartiles = f" [{ratio['q1']:.3g}, {ratio['q3']:.3g}]" if "q1" in ratio else ""
    is_met = aim.get("least", -float("inf")) <= ratio["median"] <= aim.get("most", float("inf"))
    return f"| {aim['asks']} | {ratio['median']:.3g}{quartiles} | {target} | {'met' if is_met else '**missed**'} |"


def main() -> None:
    aims = yaml.safe_load((BENCH / "aims.yaml").read_text("utf-8"))["aims"]
    records = {name: json.loads((BENCH / f"{name}.json").read_text("utf-8")) for name in {aim["bench"] for aim in aims}}
    lines = ["| what | ratio | aim | |", "|---|---:|---|---|"]
    lines += [*(row_of(aim, records[aim["bench"]]) for aim in aims), ""]
    for name, record in sorted(records.items()):
        environment = record["environment"]
        lines.append(f"- `{name}`: commit {environment['commit'][:8]}, {environment.get('cpu')}")
    page = BENCH / "README.md"
    text = re.sub(r"(?s)(<!-- table -->\n).*?(\n<!-- end -->)", lambda match: match[1] + "\n".join(lines) + match[2],
                  page.read_text("utf-8"))
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
