"""The Latin case behind docs/latin.md."""
