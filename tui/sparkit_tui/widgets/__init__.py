"""The few widgets all screens are made of."""
