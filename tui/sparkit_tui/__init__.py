"""The Textual screens of sparkit; imports sparkit, never the reverse."""
