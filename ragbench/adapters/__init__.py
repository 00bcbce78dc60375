"""Shared parts of adapters: HTTP, templates, paths into replies, and objects of libraries."""
