"""One file a screen, one idea and one figure a screen; each draws from the session and computes nothing of its own."""
