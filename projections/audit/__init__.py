"""The log as evidence: what it says of any moment, whether it is whole, and what follows from it."""
