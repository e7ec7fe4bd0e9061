"""The log: streams of events with a feed beside them, durable in groups, chained, and read in one global order."""
