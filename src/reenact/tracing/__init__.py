"""Spans and metrics of OpenTelemetry, made from the log.

Nothing here is imported, and nothing is sent, unless somebody asks for it.
"""
