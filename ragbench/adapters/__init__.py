"""Shared parts of adapters to libraries and servers: HTTP, templates, and objects of libraries."""
