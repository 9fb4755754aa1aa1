"""What the screens show, computed from rounds: rounds in, plain values out; no widget, no clock, no engine."""
