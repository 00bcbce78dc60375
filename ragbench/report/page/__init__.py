"""`report.html`: one file without a server or a request, from the first table to any query.

`rankings` says what the page needs to know of each query, `pack` compresses it in parts, and
`html` writes the file. `assets/` has the script, the styles and the frame as people edit them.
"""
