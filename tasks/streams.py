"""Counter-based random streams: the same numbers on every machine, in every pack, after every resume."""

import hashlib

import numpy as np


def stream(seed: int, purpose: str, epoch: int = 0) -> np.random.Generator:
    """The random stream of a trial's `seed` for one `purpose` ("train", "eval", "init/readout.weight", …) and epoch.

    Philox (Salmon et al. 2011) keyed by the seed and the purpose, with its counter's highest word at the epoch: streams
    of different seeds, purposes or epochs never overlap, and any epoch's can be had without those before it.

    Raises:
        ValueError: a negative seed or epoch.
    """
    if seed < 0 or epoch < 0:
        raise ValueError(f"a stream's seed and epoch must not be negative, got seed {seed} and epoch {epoch}")
    purpose_key = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")
    # As uint64 from the start: a list of Python integers would become float64, and round, where one exceeds 2^63.
    key = np.array([seed, purpose_key], dtype=np.uint64)
    counter = np.array([0, 0, 0, epoch], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
