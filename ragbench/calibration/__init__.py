"""A judge against people: sheets to be labelled, and the certificate that labels give a judge.

`verdicts` reads what a judge said from a run folder, `draw` and `sheet` choose and write what
people label, `labels` reads it back on a `scale`. `agreement`, `probes`, `retest` and `corrected`
compute the parts of a certificate, which `certificate` puts together.
"""
