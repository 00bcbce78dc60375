"""Rows with tabs, as the csv module of Python reads them."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from ragbench.report.formats import render
from ragbench.report.table import TableReport, data_table

words = st.text("ab\t\n|é", max_size=6)


def test_values_worked_by_hand():
    rows = data_table(("system", "mean"), [("bm25", 0.5), ("a\tb", None)])

    assert render(TableReport((), rows), "tsv") == "system\tmean\nbm25\t0.5\na b\t\n"


@given(st.lists(st.tuples(words, words)))
def test_the_csv_module_reads_every_value(pairs):
    text = render(TableReport((), data_table(("one", "two"), pairs)), "tsv")

    read = list(csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert read[1:] == [[" ".join(word.split()) for word in pair] for pair in pairs]
