"""Measures pgtasker beside what a user would pick instead, on one server: `python -m bench` (see README.md)."""
