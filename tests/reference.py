"""Oracles in plain NumPy: double loops and textbook formulas, sharing no code with the package."""

import math

import numpy as np


def kernel_matrix(function, X, X2):
    """A kernel from its value at one pair of points."""
    return np.array([[function(x, x2) for x2 in X2] for x in X])


def rbf(variance, lengthscales):
    lengthscales = np.asarray(lengthscales)
    return lambda a, b: variance * math.exp(-0.5 * float(np.sum(((a - b) / lengthscales) ** 2)))


def numerical_gradient(function, x, step=1e-5):
    """Central differences, entry by entry."""
    x = np.asarray(x, dtype=float)
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        high, low = x.copy(), x.copy()
        high[index] += step
        low[index] -= step
        gradient[index] = (float(function(high)) - float(function(low))) / (2 * step)
    return gradient


def gaussian_integral(function, mean, variance, reach=14.0, pieces=1500):
    """E[function(f)], by Gauss-Legendre on many small pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(-reach, reach, pieces + 1)
    half = 0.5 * np.diff(edges)[:, None]
    z = (0.5 * (edges[1:] + edges[:-1]))[:, None] + half * nodes
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    values = np.asarray(function((mean + math.sqrt(variance) * z).ravel())).reshape(z.shape)
    return float(np.sum(half * weights * density * values))


def conditional(kernel, Z, X, v, jitter):
    """Mean and variance of f at X given u = R v, one datum at a time."""
    Kuu = kernel_matrix(kernel, Z, Z)
    Kuu = Kuu + jitter * np.mean(np.diag(Kuu)) * np.eye(len(Z))
    R = np.linalg.cholesky(Kuu)
    mean, variance = np.zeros(len(X)), np.zeros(len(X))
    for n, x in enumerate(X):
        a = np.linalg.solve(R, np.array([kernel(z, x) for z in Z]))
        mean[n] = a @ v
        variance[n] = kernel(x, x) - a @ a
    return mean, variance


def log_marginal(K, noise, y):
    """Log evidence of exact Gaussian process regression."""
    C = K + noise * np.eye(len(y))
    sign, log_determinant = np.linalg.slogdet(C)
    assert sign > 0
    return -0.5 * (y @ np.linalg.solve(C, y) + log_determinant + len(y) * math.log(2 * math.pi))


def titsias_bound(kernel, Z, X, noise, y, jitter):
    """The collapsed bound of Titsias (2009)."""
    Kuu = kernel_matrix(kernel, Z, Z)
    Kuu = Kuu + jitter * np.mean(np.diag(Kuu)) * np.eye(len(Z))
    Kuf = kernel_matrix(kernel, Z, X)
    Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    unexplained = sum(kernel(x, x) for x in X) - np.trace(Q)
    return log_marginal(Q, noise, y) - 0.5 * unexplained / noise
