"What planted titles are made of, texts without labels, and which runs of an experiment are asked for."
import numpy as np
import pytest

import made
from debias_nb.checks import ConfigError
from debias_nb.data.registry import DataError
from debias_nb.data.texts import read_texts_file
from debias_nb.data.worlds import CODE_WORDS, Catalog, draw_others, relevant
from debias_nb.encoders import loading
from debias_nb.runs import runner
from debias_nb.settings import WorldConfig


@pytest.mark.parametrize("seed", range(20))
def test_a_brand_that_begins_with_another_one_is_of_another_type(seed):
    prefix = Catalog(WorldConfig(seed=seed, types=6, unseen_types=2, accessories=0., prefix_brands=.5)).prefix_of
    children = np.flatnonzero(prefix >= 0)
    assert len(children) == 6 and (children // 2 != prefix[children] // 2).all(), "two brands a type, side by side"


def test_a_word_of_a_title_has_the_role_of_its_place():
    catalogue = Catalog(made.WORLD)
    said = {"code": set(), "filler": set(), "brand": set(), "noun": set(), "attribute": set()}
    for title in catalogue.train_pairs().left:
        for word, role in zip(title.words, title.roles):
            said[role].add(word)
    assert said["code"] and said["code"] <= {*CODE_WORDS} and not said["filler"] & {*CODE_WORDS}
    assert said["brand"] <= {*catalogue.brands} and len(said["filler"]) > 100


def test_items_that_are_drawn_for_a_query_are_not_relevant_to_it():
    titles = Catalog(made.WORLD).train_pairs().left
    drawn = draw_others(np.random.default_rng(0), titles[:40], titles, 20)
    assert not any(relevant(query, titles[place]) for query, places in zip(titles, drawn) for place in places)
    assert len({*drawn.ravel()}) > 200
    with pytest.raises(ValueError, match="all 3 items are relevant to one query"):
        draw_others(np.random.default_rng(0), titles[:1], titles[:1] * 3, 1)


def test_texts_stand_in_a_column_that_is_there(tmp_path):
    (tmp_path / "a.csv").write_text("said,number\na lamp,1\nold chairs,2\n")
    assert read_texts_file(f"{tmp_path}/a.csv:said") == ["a lamp", "old chairs"]
    with pytest.raises(DataError, match="no column 'siad'; did you mean 'said'"):
        read_texts_file(f"{tmp_path}/a.csv:siad")


def test_a_name_that_no_run_has_is_told_by_its_kind():
    for kind in ("method", "encoder"):
        with pytest.raises(ConfigError, match=f"no {kind} in itvreg/demo called 'Finetund'"):
            runner.narrow(made.experiment(), **{f"{kind}s": ["Finetund"]})


@pytest.mark.parametrize("proxies", [{}, {"https": "a proxy"}])
def test_an_address_without_a_host_leads_nowhere_but_through_a_proxy(monkeypatch, proxies):
    def unknown(*_):
        raise OSError("no such host")

    monkeypatch.setattr(loading, "getaddrinfo", unknown)
    monkeypatch.setattr(loading, "getproxies", lambda: proxies)
    assert loading.leads_nowhere("https://nowhere.invalid") == (not proxies)
    monkeypatch.setattr(loading, "getaddrinfo", lambda *_: ["an address"])
    assert not loading.leads_nowhere("https://nowhere.invalid")
