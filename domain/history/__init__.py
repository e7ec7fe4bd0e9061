"""What is told of a recorded history: causes, sentences, and what today's code would decide."""
