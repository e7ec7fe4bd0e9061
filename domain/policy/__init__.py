"""Policies: which tool calls run, which need a person's approval, and which are denied."""
