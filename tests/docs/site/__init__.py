"""The documents as a site. `python -m tests.docs.site DIRECTORY` builds it, from the same pages."""
