"""Where rounds come from: an engine, a trace, a race of engines; none of them knows a screen."""
