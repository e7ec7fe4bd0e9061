"""What subscribers hear: the catalogue of events, the answer that they add up to, how rows hold them, and frames."""
