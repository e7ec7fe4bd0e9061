"""Policies: which calls of tools run, which a person is asked about, and which are denied."""
