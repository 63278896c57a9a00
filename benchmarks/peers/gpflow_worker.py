"""GPflow 2.11: `SGPMC`, TensorFlow Probability's HMC, and the loop of predictions that its documentation shows.

Runs in an environment of its own (``python -m peers.gpflow_worker``): a request a line on the standard input, an answer a line on
the standard output, both JSON; arrays go through npz files.
"""

import contextlib
import functools
import json
import sys
import time
from collections.abc import Callable

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from timing import seconds_a_call

LEAPFROG_STEPS = 20
TARGET_ACCEPTANCE = 0.8


@functools.cache
def problem(path: str) -> tuple[dict[str, np.ndarray], gpflow.models.SGPMC]:
    """A saved problem, and the model at its values; the inducing inputs and the likelihood are held, as ours are."""
    data = dict(np.load(path))
    kernel = gpflow.kernels.SquaredExponential(variance=float(data["variance"]), lengthscales=data["lengthscales"])
    kernel.variance.prior, kernel.lengthscales.prior = gamma(data["variance_prior"]), gamma(data["lengthscales_prior"])
    model = gpflow.models.SGPMC(
        (data["X"], data["y"][:, None]),
        kernel,
        likelihood(data),
        num_latent_gps=int(data["num_classes"]),
        inducing_variable=data["Z"],
    )
    gpflow.set_trainable(model.inducing_variable, False)
    gpflow.set_trainable(model.likelihood, False)
    model.V.assign(data["whitened"])
    return data, model


def gamma(shape_and_rate: np.ndarray) -> tfp.distributions.Gamma:
    return tfp.distributions.Gamma(*(tf.constant(value, dtype=tf.float64) for value in shape_and_rate))


def likelihood(data: dict[str, np.ndarray]) -> gpflow.likelihoods.Likelihood:
    name = str(data["likelihood"])
    if name == "poisson":
        return gpflow.likelihoods.Poisson(binsize=float(data["exposure"]))
    if name == "bernoulli":
        return gpflow.likelihoods.Bernoulli()
    return gpflow.likelihoods.MultiClass(int(data["num_classes"]))


def parameters(model: gpflow.models.SGPMC) -> tuple[gpflow.Parameter, ...]:
    return model.V, model.kernel.variance, model.kernel.lengthscales


@functools.cache
def gradient(path: str) -> Callable[[], tuple[tf.Tensor, list[tf.Tensor]]]:
    """Value and gradient of the log posterior density in v and the kernel's parameters, compiled."""
    _, model = problem(path)
    variables = [parameter.unconstrained_variable for parameter in parameters(model)]

    @tf.function
    def value_and_gradient() -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = model.log_posterior_density()
        return value, tape.gradient(value, variables)

    return value_and_gradient


def check_gradient(path: str) -> dict:
    """The data term and the slope in v, for comparison with ours."""
    _, model = problem(path)
    return {"data_term": float(model.log_likelihood_lower_bound()), "slope": gradient(path)()[1][0].numpy().tolist()}


def time_gradient(path: str) -> dict:
    return {"seconds": seconds_a_call(lambda: gradient(path)()[0].numpy())}


def sample(path: str, out: str, seed: int, num_warmup: int, num_samples: int) -> dict:
    """One chain from the values of the problem; the draws go to a file, in natural units."""
    _, model = problem(path)
    tf.random.set_seed(seed)
    helper = gpflow.optimizers.SamplingHelper(model.log_posterior_density, parameters(model))
    begun = time.perf_counter()
    state, step_size = warm_up(helper, num_warmup)
    chain = fixed_chain(helper, step_size)
    chain(state, tf.constant(2))  # compile
    seconds_warmup = time.perf_counter() - begun
    begun = time.perf_counter()
    draws, accepted = chain(state, tf.constant(num_samples))
    accepted = accepted.numpy()
    seconds = time.perf_counter() - begun
    names = ("whitened", "variance", "lengthscales")
    np.savez(out, **{name: d.numpy() for name, d in zip(names, helper.convert_to_constrained_values(draws), strict=True)})
    return {"seconds": seconds, "seconds_warmup": seconds_warmup, "acceptance": float(accepted.mean())}


def warm_up(helper: gpflow.optimizers.SamplingHelper, num_draws: int) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Where a chain is after so many draws, and the step size that dual averaging settled on."""
    hmc = tfp.mcmc.HamiltonianMonteCarlo(
        helper.target_log_prob_fn, num_leapfrog_steps=LEAPFROG_STEPS, step_size=tf.constant(0.02, tf.float64)
    )
    adaptive = tfp.mcmc.DualAveragingStepSizeAdaptation(
        hmc, num_adaptation_steps=num_draws - 1, target_accept_prob=tf.constant(TARGET_ACCEPTANCE, tf.float64)
    )

    @tf.function
    def run() -> tuple[list[tf.Tensor], tf.Tensor]:
        return tfp.mcmc.sample_chain(
            num_results=1,
            num_burnin_steps=num_draws - 1,
            current_state=helper.current_state,
            kernel=adaptive,
            trace_fn=lambda _, results: results.new_step_size,
        )

    states, step_sizes = run()
    return [state[-1] for state in states], step_sizes[-1]


def fixed_chain(helper: gpflow.optimizers.SamplingHelper, step_size: tf.Tensor) -> Callable:
    """HMC with a settled step size, for any number of draws."""
    hmc = tfp.mcmc.HamiltonianMonteCarlo(helper.target_log_prob_fn, num_leapfrog_steps=LEAPFROG_STEPS, step_size=step_size)

    @tf.function
    def run(state: list[tf.Tensor], num_draws: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        return tfp.mcmc.sample_chain(num_draws, state, kernel=hmc, trace_fn=lambda _, results: results.is_accepted)

    return run


def predict(path: str, compiled: bool) -> dict:
    """Assign each draw to the model and predict, as the documentation does; the mean over draws, and the seconds."""
    data, model = problem(path)
    inputs = tf.constant(data["inputs"])
    predict_y = predict_function(path) if compiled else model.predict_y
    begun = time.perf_counter()
    total = np.zeros(len(data["inputs"]))
    for v, variance, lengthscales in zip(data["draws_whitened"], data["draws_variance"], data["draws_lengthscales"], strict=True):
        model.V.assign(v)
        model.kernel.variance.assign(variance)
        model.kernel.lengthscales.assign(lengthscales)
        total += predict_y(inputs)[0].numpy()[:, 0]
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "mean": (total / len(data["draws_whitened"])).tolist()}


@functools.cache
def predict_function(path: str) -> Callable:
    return tf.function(problem(path)[1].predict_y)


def versions() -> dict:
    return {"GPflow": gpflow.__version__, "TensorFlow": tf.__version__, "TensorFlow Probability": tfp.__version__}


TASKS = {task.__name__: task for task in (versions, check_gradient, time_gradient, sample, predict)}


def main() -> None:
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = TASKS[request["task"]](**request["arguments"])
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:500]}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
