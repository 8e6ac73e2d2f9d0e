"The published diagnoses in reports/diagnose/."
import json
import shutil

import diagnose_cases
import pytest


@pytest.mark.parametrize("name", diagnose_cases.CASES)
def test_published_pages_are_what_their_twins_give(tmp_path, name):
    for kind in ("html", "json"):
        shutil.copy(diagnose_cases.OUT / f"{name}.{kind}", tmp_path)
    diagnose_cases.reword(name, tmp_path)
    for kind in ("html", "json"):
        assert (tmp_path / f"{name}.{kind}").read_text("utf-8") == (diagnose_cases.OUT / f"{name}.{kind}").read_text("utf-8")


def test_the_list_of_published_pages_says_what_they_say():
    assert (diagnose_cases.OUT / "README.md").read_text("utf-8") == diagnose_cases.listed()


def test_the_picture_in_the_readme_says_what_its_page_says():
    heading = json.loads((diagnose_cases.OUT / "forum.json").read_text("utf-8"))["decision"]["heading"]
    readme = (diagnose_cases.OUT.parents[1] / "README.md").read_text("utf-8")
    assert f"![The first screen of a diagnosis: {heading}](reports/diagnose/forum.png)" in readme
