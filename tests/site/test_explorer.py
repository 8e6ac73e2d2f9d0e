"""The explorer of results in a browser: what is chosen is shown, and the address keeps it."""
import pytest
from conftest import SITE

pytestmark = pytest.mark.skipif(not (SITE / "explorer.html").exists(), reason="there is no _docs/: make docs builds it")
CHOSEN = ("paper", "table", "scale", "encoder", "metric")


@pytest.fixture
def explorer(tab, served):
    "Opens the explorer with a view in its address."
    def opened(view: str = ""):
        tab.goto("about:blank") # a change of the part behind # alone would open no page
        tab.goto(f"{served}/explorer.html#{view}")
        tab.wait_for_selector("body[data-ready]")
        return tab
    return opened


def shown(tab) -> list[dict]:
    "The rows of the table of numbers."
    return tab.evaluate("numbers.getData('active')")


def chosen(tab) -> dict[str, str]:
    return {name: tab.input_value(f"[name={name}]") for name in CHOSEN}


def other(tab, name: str) -> str:
    "A value of a filter that is not chosen."
    values = tab.eval_on_selector_all(f"[name={name}] option", "options => options.map(one => one.value)")
    return next(value for value in values if value != tab.input_value(f"[name={name}]"))


@pytest.mark.parametrize("name", CHOSEN)
def test_a_filter_narrows_the_rows(explorer, name):
    tab = explorer("table=table8") # which has several metrics
    value = other(tab, name)
    before = shown(tab)
    tab.select_option(f"[name={name}]", value)
    after = shown(tab)
    assert after and after != before
    assert {row[name] for row in after} == {value}
    assert tab.locator("#picture circle").count() == len(after)


def test_the_head_of_a_column_narrows_the_rows(explorer):
    tab = explorer()
    all_rows = shown(tab)
    tab.get_by_label("Filter by method").press_sequentially("ITVReg")
    tab.wait_for_function(f"numbers.getData('active').length < {len(all_rows)}")
    assert {"itvreg" in row["method"].lower() for row in shown(tab)} == {True}


def test_tables_bear_the_titles_of_their_pages(explorer):
    tab = explorer("table=texts_askubuntu")
    called = tab.eval_on_selector_all("[name=table] option", "options => options.map(one => one.textContent)")
    assert {
        "Table 3: Does ITVReg help on questions from another forum?",
        "Does it help to hold the encoder on unlabeled texts of the new kind? (texts askubuntu)",
        "Does the balance of duplicates and other pairs change what a regularizer does? (askubuntu)"} <= set(called)
    assert len(called) == len(set(called)) and tab.input_value("[name=table]") == "texts_askubuntu"
    assert called[0].startswith("Figure 3: "), "the papers' own come first, figures before tables"


def test_a_method_is_taken_off_and_the_difference_has_its_interval(explorer):
    view = "table=texts_quora&encoder=MiniLM"
    values = {(row["method"], row["column"]): row["value"] for row in shown(explorer(view))}
    tab = explorer(f"{view}&minus=Finetuned")
    rows = shown(tab)
    assert rows and {row["method"] for row in rows} == {method for method, _ in values} - {"Finetuned"}
    for row in rows:
        value, base = values[row["method"], row["column"]], values["Finetuned", row["column"]]
        assert abs(row["value"] - (value - base)) < .02
        assert row["method"] == "Base" or row["low"] < row["value"] < row["high"]
    assert "minus Finetuned (points)" in tab.inner_text("#picture")
    tab.select_option("[name=minus]", "nothing")
    assert {(row["method"], row["column"]): row["value"] for row in shown(tab)} == values


def test_the_way_back(explorer):
    tab = explorer()
    tab.get_by_role("navigation").get_by_text("Start").click()
    assert tab.url.endswith("/index.html")


@pytest.mark.parametrize("place", ["#picture circle", "#numbers button"])
def test_a_click_says_where_a_number_comes_from(explorer, place):
    tab = explorer()
    tab.locator(place).first.dispatch_event("click") # wherever it lies
    said = tab.inner_text("#details")
    for what in ("Value", "Where", "Command that makes it again", "Commit", "Runs (", "Configuration of the first run"):
        assert what in said
    tab.click("#details summary")
    assert '"method"' in tab.inner_text("#details pre")
    assert "debias-nb" in said


def test_a_circle_tells_of_its_own_row(explorer):
    tab = explorer()
    circle = tab.locator("#picture circle").last
    title = circle.locator("title").text_content()
    circle.dispatch_event("click")
    method, rest = title.split(", ", 1)
    assert tab.inner_text("#details h2") == f"{method}, {rest.partition(':')[0]}"


def test_the_address_keeps_the_view(explorer):
    tab = explorer()
    tab.select_option("[name=paper]", "scan")
    tab.select_option("[name=table]", other(tab, "table"))
    view, rows = chosen(tab), shown(tab)
    tab.reload()
    tab.wait_for_selector("body[data-ready]")
    assert (chosen(tab), shown(tab)) == (view, rows)
    assert tab.inner_text("#said") == ""


@pytest.mark.parametrize("address, named", [
    ("paper=itvreg&table=table99", "table table99"), ("view=nothing", "view nothing"), ("paper=zzz", "paper zzz"), ("place=1", "place 1")])
def test_an_unknown_view_shows_the_default_and_says_so(explorer, address, named):
    view = chosen(explorer())
    tab = explorer(address)
    assert tab.inner_text("#said") == f"Unknown in this link: {named}. The default is shown instead."
    assert chosen(tab) == view
    assert tab.input_value("[name=view]") == "results"


def test_the_claims_can_be_filtered_and_the_address_keeps_them(explorer):
    tab = explorer()
    tab.select_option("[name=view]", "claims")
    tab.reload()
    tab.wait_for_selector("body[data-ready]")
    assert tab.is_visible("#claimed") and tab.is_hidden("#results")
    every = tab.evaluate("claims.getDataCount('active')")
    tab.locator("#claimed").get_by_label("Filter by id").press_sequentially("A1")
    tab.wait_for_function(f"claims.getDataCount('active') < {every}")
    assert all("A1" in row["id"] for row in tab.evaluate("claims.getData('active')"))
    link = tab.locator("#claimed a").first
    claim = link.inner_text()
    link.click()
    assert claim in tab.inner_text(f"tr:has(#{claim.lower()})")
