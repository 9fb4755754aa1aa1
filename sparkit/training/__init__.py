"""Training of the bundled lane: corpus, anchors, losses, loop, checkpoints."""
