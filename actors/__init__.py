"""The live, writing side: actors and their runtime. Only the composing layer imports names from here."""
