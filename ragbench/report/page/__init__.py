"""`report.html`: results and queries in one file that needs no server and makes no request.

`data` packs the queries, and `html` writes the file. `assets/` has the script, the styles and the
template.
"""
