"""Sessions' events under their cursors: whoever follows one has every event once and in order, replayed or live."""
