"""Tests of policies: rules, lists, patterns and verdicts."""
