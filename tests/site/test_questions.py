"""What a new reader asks is answered within three clicks from the start page."""
import pytest

QUESTIONS = { # question -> links and buttons to click, and what is then to be read
    "Does ITVReg work?": (["six findings"], ["ITVReg, at its paper's λ, changes almost nothing", "lie within a point"]),
    "Does ITVReg work, claim by claim?": (["every claim"], ["A1a"]),
    "How do I test my encoder?": (["worse"], ["debias-nb diagnose --base", "labeled pairs"]),
    "What does a test of an encoder say?": (["Diagnosed", "Page"], ["askubuntu: worse", "95% confidence interval"]),
    "Where does this number come from?": (["explorer of numbers", "show"],
                                          ["Command that makes it again", "Commit", "Runs ("]),
    "Where does a finding come from?": (["six findings", "Table 3"], ["all differences"]),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_three_clicks_lead_to_an_answer(tab, served, question):
    clicks, answers = QUESTIONS[question]
    assert len(clicks) <= 3
    tab.goto(f"{served}/index.html")
    for name in clicks:
        tab.locator("main a, main button").get_by_text(name, exact=True).first.click()
        tab.wait_for_load_state()
    for answer in answers:
        # what is hidden is no part of it
        tab.wait_for_function("text => document.body.innerText.includes(text)", arg=answer)
