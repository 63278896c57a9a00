"""Whether freegp can be trusted: simulations of which the truth is known, and every kind of ill use."""
