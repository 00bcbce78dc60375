"""Results to pages: a terminal table, `report.md` and `report.html` from the same neutral tables.

Everything is a pure function of `summary.json` and `comparisons.json`, so that a page can be
rebuilt from a run folder. `layout` decides what stands in the tables; `terminal`, `markdown` and
`page` only draw it. `progress` is what people see while they wait.
"""
