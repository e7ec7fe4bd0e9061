"""Spans and metrics of OpenTelemetry."""
