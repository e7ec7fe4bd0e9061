"""Tests of what compares text with what was expected."""
