"""The nouns: frozen values that every other layer speaks in."""
