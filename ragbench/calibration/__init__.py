"""A judge against people: sheets to be labelled, and the certificate that labels give a judge.

`judged_run` reads what a judge said from a run folder, `sheet` chooses and writes what people
label, `labels` reads it back. `agreement` and `probes` compute parts of a certificate, which
`certificate` puts together; `pairs` does all of this for preferences.
"""
