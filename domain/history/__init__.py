"""Analysis of a recorded history: causes, sentences, and the replay of its decisions with today's code."""
