"""The feed: session events with cursors, which each follower gets once and in order, replayed or live."""
