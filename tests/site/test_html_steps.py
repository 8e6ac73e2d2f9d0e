"The steps on the HTML of three builders: the same terms, formulas and places that scroll, and no other change."
import json

import pytest

pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: make docs installs it")
import html_steps # noqa: E402

SOURCE = """<h1 id="miniLM">MiniLM</h1>
<p>A <em>regularizer</em>, <code>λ</code>, <a href="x.html">λ</a> &amp; P@1-like &lt;λ&gt; <b>λ, P@1</b> \
and the Regularizer.</p>
<pre><code>λ &lt; 1
</code></pre>
<ul><li>One<li>minilm</ul>
<div class="arithmatex">\\[a &lt; b\\]</div><span class='arithmatex'>no formula λ</span>
<table tabindex="0"><tr><th>R@8</th></tr></table><table><tr><td>1</td></tr></table><br/>
"""
TARGET = """<h1 id="miniLM">MiniLM</h1>
<p>A <em><a class="term" href="../glossary.html#regularizer">regularizer</a></em>, <code>λ</code>, \
<a href="x.html">λ</a> &amp; P@1-like \
&lt;<a class="term" href="../glossary.html#λ">λ</a>&gt; <b>λ, <a class="term" href="../glossary.html#p-1">P@1</a></b> \
and the Regularizer.</p>
<pre tabindex="0"><code>λ &lt; 1
</code></pre>
<ul><li>One<li><a class="term" href="../glossary.html#minilm">minilm</a></ul>
<math xmlns="http://www.w3.org/1998/Math/MathML" display="block" tabindex="0">\
<mrow><mi>a</mi><mo>&#x0003C;</mo><mi>b</mi></mrow></math>\
<span class='arithmatex'>no formula λ</span>
<table tabindex="0"><tr><th>R@8</th></tr></table><table tabindex="0"><tr><td>1</td></tr></table><br/>
"""
FRAMES = { # builder -> what stands around the text of a page
    "Material": '<!doctype html><html><head><title>MiniLM</title><script>if (1 < 2 && λ) '
                '{"</p>"}</script></head><body>\n'
                '<div data-md-component="search" role="dialog"><p>λ</p></div>\n<main '
                'class="md-main"><div><nav>λ<label>λ</label></nav></div>'
                "<article>{}<aside>R@8</aside></article></main><footer>R@8</footer></body></html>\n",
    "MkDocs": '<!DOCTYPE html>\n<body class="homepage"><div class="navbar">λ</div><div '
              'role="main">{}</div><p>R@8</p></body>',
    "Zensical": '<!doctype html><html lang=en><body dir="ltr"><input type=checkbox autocomplete="off"><svg><path d="M1 '
                '2"/>λ</svg>'
                "<main class=md-main><article>{}</article></main>",
}


@pytest.mark.parametrize("builder", FRAMES)
def test_the_text_of_a_page_gets_the_same_from_each_builder_and_nothing_else_changes(builder):
    head, _, foot = FRAMES[builder].partition("{}")
    page = html_steps.changed_page(head + SOURCE + foot, "read/itvreg.html")
    assert page == head.replace("<div data-md", '<div aria-label="Search" data-md') + TARGET + foot


def test_an_id_is_the_first_element_that_has_it_and_links_to_it_stay():
    head = '<h2 id="a1">A1</h2><a id=a1></a><a class="x" id=\'a1\' href="#a1">1</a><main><table id="a1">'
    target = '<h2 id="a1">A1</h2><a></a><a class="x" href="#a1">1</a><main><table tabindex="0">'
    assert html_steps.changed_page(head, "index.html") == target


def test_the_glossary_links_no_terms_to_itself():
    page = f"<main>{SOURCE}</main>"
    assert 'class="term"' not in html_steps.changed_page(page, "glossary.html")
    assert 'href="glossary.html#regularizer"' in html_steps.changed_page(page, "index.html")


SECTION = {"location": "reports/scan/table03.html", "title": "Three losses",
           "text": "<p>Some words. <b>Answer.</b> yes " + "x" * 285 + "&lt;</p>"}


@pytest.mark.parametrize("name, key, config", [
    ("search/search_index.json", "docs", {"fields": {"tags": {"boost": 1.0}}}),
    ("search/search_index.json", "docs", {}), ("search.json", "items", {})])
def test_the_search_of_each_builder_knows_answers_numbers_and_questions(tmp_path, name, key, config):
    sections = [SECTION, SECTION | {"location": "citing.html"}, SECTION | {"location": "papers/scan/table03.html"}]
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"config": config, key: sections}))
    html_steps.change_search(tmp_path)
    index = json.loads(file.read_text("utf-8"))
    first, second = index[key]
    queries = ["cite", "how to cite", "citation"]
    assert second.get("tags") == (queries if config else None)
    assert second["text"].endswith(" (cite, how to cite, citation)") == (not config)
    assert first["title"] == "Table 3 of paper C: Three losses"
    assert first["text"] == "Answer. yes " + "x" * 285
    assert index["config"] == (config and {"fields": {"tags": {"boost": 2000.}}, "pipeline": []})


def test_a_search_of_another_builder_is_left_and_named(tmp_path, capsys):
    html_steps.change_search(tmp_path)
    assert (capsys.readouterr().out == "none of search/search_index.json, search.json is there: the search knows what "
                                       "its builder gave it\n")


def test_a_page_that_was_not_built_is_named(tmp_path):
    for name in ("README.md", "read/itvreg.md"):
        (tmp_path / "pages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pages" / name).write_text("# One\n")
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<main><p>λ</p></main>")
    with pytest.raises(SystemExit, match=r"^the builder made no read/itvreg.html of read/itvreg.md$"):
        html_steps.change_site(site, tmp_path / "pages")
    assert 'class="term"' in (site / "index.html").read_text("utf-8")


def test_a_formula_that_is_not_understood_is_named():
    with pytest.raises(SystemExit, match="the formula '.*frac.*' is not understood"):
        html_steps.changed_page(r'<main><span class="arithmatex">\(\frac{\)</span></main>', "index.html")
