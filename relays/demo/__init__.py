"""The demo: a small shop, its receivers and a real relay, and a comparison of what happened with what should have."""
