"""What a person sees of an answer: Markdown as it streams, calls and the live line."""
