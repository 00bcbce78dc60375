"""Loaders of data sets: one module per `type` of `dataset:`."""
