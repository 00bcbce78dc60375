"""Calibration of judges against people: sheets to label, and certificates of agreement.

`judged_run` reads the verdicts of a run folder, `sheet` draws answers and writes the sheet,
`labels` reads the filled sheet. `agreement` and `probes` compute the parts of a certificate, which
`certificate` assembles.
"""
