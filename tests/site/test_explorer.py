"""The explorer of results in a browser: what is chosen is shown, and the address keeps it."""
import pytest

FILTERS = ("paper", "table", "scale", "encoder", "metric")


@pytest.fixture
def explorer(tab, served):
    "Opens the explorer with a view in its address."
    def open_view(view: str = ""):
        tab.goto("about:blank") # a change of the part behind # alone would open no page
        tab.goto(f"{served}/explorer.html#{view}")
        tab.wait_for_selector("body[data-ready]")
        return tab
    return open_view


def rows_of(tab) -> list[dict]:
    "The rows of the table of numbers."
    return tab.evaluate("numbers.getData('active')")


def filters_of(tab) -> dict[str, str]:
    return {name: tab.input_value(f"[name={name}]") for name in FILTERS}


def other_option(tab, name: str) -> str:
    "A value of a filter that is not chosen."
    values = tab.eval_on_selector_all(f"[name={name}] option", "options => options.map(one => one.value)")
    return next(value for value in values if value != tab.input_value(f"[name={name}]"))


def test_each_filter_narrows_the_rows(explorer):
    tab = explorer("table=table8") # which has several metrics
    for name in reversed(FILTERS): # what stands to the right of a filter depends on it
        original, value = tab.input_value(f"[name={name}]"), other_option(tab, name)
        all_rows = rows_of(tab)
        tab.select_option(f"[name={name}]", value)
        rows = rows_of(tab)
        assert rows and rows != all_rows
        assert {row[name] for row in rows} == {value}
        assert tab.locator("#picture circle").count() == len(rows)
        tab.select_option(f"[name={name}]", original)


def test_a_method_is_taken_off_and_the_difference_has_its_interval(explorer):
    tab = explorer("table=texts_quora&encoder=MiniLM&minus=Finetuned")
    differences = rows_of(tab)
    assert "− Finetuned (points)" in tab.inner_text("#picture")
    tab.select_option("[name=minus]", "nothing")
    values = {(row["method"], row["column"]): row["value"] for row in rows_of(tab)}
    assert differences and {row["method"] for row in differences} == {method for method, _ in values} - {"Finetuned"}
    for row in differences:
        value, base = values[row["method"], row["column"]], values["Finetuned", row["column"]]
        assert abs(row["value"] - (value - base)) < .02
        assert row["method"] == "Base" or row["low"] < row["value"] < row["high"]


def test_a_row_a_circle_and_a_number_tell_where_they_come_from_and_there_is_a_way_back(explorer):
    tab = explorer("minus=nothing")
    circle = tab.locator("#picture circle").last
    title = circle.locator("title").text_content()
    circle.dispatch_event("click") # wherever it lies
    method, where_from = title.split(", ", 1)
    assert tab.inner_text("#details h2") == f"{method}, {where_from.partition(':')[0]}"
    for place in ("#picture circle", "#numbers button"):
        tab.locator(place).first.dispatch_event("click")
        details = tab.inner_text("#details")
        for heading in ("Value", "Where", "Command that makes it again", "Commit", "Runs (",
                        "Configuration of the first run"):
            assert heading in details
        tab.click("#details summary")
        assert '"method"' in tab.inner_text("#details pre")
        assert "debias-nb" in details

    all_rows = rows_of(tab)
    tab.get_by_label("Filter by method").press_sequentially("ITVReg")
    tab.wait_for_function(f"numbers.getData('active').length < {len(all_rows)}")
    assert {"itvreg" in row["method"].lower() for row in rows_of(tab)} == {True}
    tab.get_by_role("navigation").get_by_text("Start").click()
    assert tab.url.endswith("/index.html")


def test_the_address_keeps_the_view(explorer):
    tab = explorer()
    tab.select_option("[name=paper]", "scan")
    tab.select_option("[name=table]", other_option(tab, "table"))
    view, rows = filters_of(tab), rows_of(tab)
    tab.reload()
    tab.wait_for_selector("body[data-ready]")
    assert (filters_of(tab), rows_of(tab)) == (view, rows)
    assert tab.inner_text("#said") == ""
