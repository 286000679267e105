"""The relay: claims deliveries, sends them through sinks, settles what became of them."""
