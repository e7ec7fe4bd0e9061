"""The domain model: immutable values and pure rules; no thread, clock, network or database."""
