"""Look-ups by name, id or position, and parts of mappings."""

from types import SimpleNamespace

from ragbench.types import lookups


def test_items_by_name_and_id():
    items = [SimpleNamespace(name=n, id=i) for n, i in (("a", "1"), ("b", "2"), ("a", "2"))]

    assert lookups.index_by_name(items) == {"a": items[2], "b": items[1]}
    assert lookups.index_by_id(items) == {"1": items[0], "2": items[2]}


def test_positions_begin_at_0_and_the_last_of_equal_keys_counts():
    assert lookups.index_positions(["q1", "q2", "q1"]) == {"q1": 2, "q2": 1}


def test_parts_keep_the_order_of_the_mapping():
    grades = {"c": 0, "a": None, "b": 2}

    assert list(lookups.select_keys(grades, ["b", "c", "x"]).items()) == [("c", 0), ("b", 2)]
    assert list(lookups.select_in_order(grades, ["b", "c", "x"]).items()) == [("b", 2), ("c", 0)]
    assert list(lookups.omit_keys(grades, ["a", "x"]).items()) == [("c", 0), ("b", 2)]
    assert lookups.omit_empty(grades) == {"b": 2}
    assert lookups.omit_none(grades) == {"c": 0, "b": 2}


def test_the_first_key_that_the_mapping_has():
    assert lookups.find_key({"id": None, "doc": "d1"}, ("docid", "doc", "id")) == "doc"
    assert lookups.find_key({"id": "d1"}, ("docid",)) is None


def test_groups_are_in_the_order_of_first_occurrence():
    groups = lookups.group_by(["bm25-1", "dense-1", "bm25-2"], lambda name: name.partition("-")[0])

    assert list(groups.items()) == [("bm25", ["bm25-1", "bm25-2"]), ("dense", ["dense-1"])]


def test_names_and_attributes_of_records():
    runs = [SimpleNamespace(name="b", n=2, k=9), SimpleNamespace(name="a", n=1, k=8)]

    assert lookups.item_names(runs) == ["b", "a"]
    assert list(lookups.attributes_of(runs[0], ("n", "name")).items()) == [
        ("n", 2),
        ("name", "b"),
    ]


def test_items_of_a_sequence_and_of_a_mapping_in_the_order_of_the_keys():
    assert lookups.take_items("abc", [2, 0, 2]) == ["c", "a", "c"]
    assert lookups.take_items({"q1": 1, "q2": 2}, ["q2", "q1"]) == [2, 1]
