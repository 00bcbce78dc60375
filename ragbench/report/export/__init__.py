"""Results of a run for other tools: MLflow and OpenTelemetry.

A file per tool. Packages of a tool are imported when its export is called.
"""
