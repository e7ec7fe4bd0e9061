"""Tests of the test kit for programs at a terminal."""
