"""Results of a run for other tools: MLflow, OpenTelemetry, and the format Every Eval Ever.

A file per tool. Packages of a tool are imported when its export is called.
"""
