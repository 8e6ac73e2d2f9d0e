"What the list of changes that no test has to notice is checked for, and what its page counts."
import pytest
import yaml

import mutants
from mutants import Change, difference, explain, page, reasons

LINE = "return float(stdtrit(df, (1 + level) / 2)) * error"
BECOMES = "return float(stdtrit(df, (1 + level) / 2)) / error"


def test_every_reason_is_of_a_line_that_is_there():
    known = reasons()
    assert set(known) <= set(mutants.TESTS)
    for entries in known.values():
        assert all(set(entry) == {"line", "becomes", "why"} and entry["why"] for entry in entries)


@pytest.mark.parametrize("line", [LINE, LINE.replace("error", "mistake")])
def test_a_reason_for_a_line_that_is_no_more_is_refused(tmp_path, line):
    path = tmp_path / "reasons.yaml"
    path.write_text(yaml.safe_dump({"stats": [{"line": line, "becomes": BECOMES, "why": "for no reason"}]}), "utf-8")
    if line == LINE:
        assert reasons(path)["stats"][0]["why"] == "for no reason"
        return
    with pytest.raises(SystemExit, match="reasons.yaml: stats has no line 'return .* mistake'"):
        reasons(path)


def test_a_reason_for_what_a_test_notices_is_refused():
    entries = [{"line": LINE, "becomes": BECOMES, "why": "for no reason"}]
    survivor = Change(LINE, BECOMES, noticed=False)
    other = Change(LINE, LINE + " + 1", noticed=False)
    explain([survivor, other], entries)
    assert (survivor.why, other.why) == ("for no reason", "")
    with pytest.raises(SystemExit, match="a test notices .* which needs no reason"):
        explain([Change(LINE, BECOMES, noticed=True)], entries)


def test_a_change_is_a_difference_of_two_lines():
    assert difference("a\n  b = 1\nc", "a\n  b = 2\nc") == ("b = 1", "b = 2")
    with pytest.raises(ValueError, match="nothing was changed"):
        difference("a", "a")


def test_the_page_counts_what_was_noticed_and_what_has_a_reason():
    changes = [Change("a = 1", "a = 2", True)] * 3 + [Change("b = 1", "b = 2", False, "for display")]
    changes.append(Change("c = 1", "c = 2", False))
    text = page({"stats": changes}, 5, 0)
    assert "| `stats` | 5 | 3 | 1 | 1 | 75% |" in text and "| all | 5 | 3 | 1 | 1 | 75% |" in text
    explained, rest = text.split("## Survived and explained")[1].split("## Survived and not explained")
    assert "+ b = 2" in explained and "for display" in explained and "+ c = 2" in rest and "c = 2" not in explained
