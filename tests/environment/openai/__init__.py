"""Tests of models behind the APIs of OpenAI."""
