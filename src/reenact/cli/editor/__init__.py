"""The line editor: keys, completion, history, and the keyboard while nobody types."""
