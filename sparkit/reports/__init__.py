"""Pictures and tables made of measured results; nothing here measures."""
