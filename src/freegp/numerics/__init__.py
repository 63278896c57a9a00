"""Linear algebra, distances, quadrature and special functions that know nothing of Gaussian processes."""
