"""The line editor: key bindings, completion, history, and the keyboard while an answer streams."""
