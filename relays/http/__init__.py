"""One HTTP request with limits, a total deadline and an address guard, whichever library sends it."""
