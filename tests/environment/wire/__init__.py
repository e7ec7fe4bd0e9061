"""Tests of what drivers over HTTP do alike."""
