"""The stream to subscribers: the catalogue of events, assembled answers, the encoding of feeds in rows, and frames."""
