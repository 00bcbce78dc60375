"""Reports of results: terminal table, `report.md` and `report.html` from the same tables.

A report is a pure function of `summary.json` and `comparisons.json`, so that it can be rebuilt from
a run folder. `layout` decides the content; `terminal`, `markdown` and `page` only draw it.
`progress` shows the progress of stages.
"""
