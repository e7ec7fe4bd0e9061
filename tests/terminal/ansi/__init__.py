"""Tests of what takes sequences out of text, or makes tokens of them."""
