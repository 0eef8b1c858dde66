"""Where searches start: rows of the data, taken in turn from clusters so that they lie far apart."""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError

CLUSTERS = 4


def choose_seeds(
    data: Dataset, count: int, seed: int, clusters: int = CLUSTERS, train: bool = True
) -> NDArray[np.int64]:
    """Up to `count` training rows (or held-out ones), round-robin over K-means clusters, shuffled by the run's seed.

    Rows that the schema calls impossible are left out. Clusters are made on clipped attributes scaled to [0, 1]: on raw
    codes the code for a missing value would decide.
    """
    rows = np.flatnonzero((data.train == train) & data.possible)
    if not len(rows):
        raise EvenhandError(f"No row of {data.name} to start from is possible by its schema: see [[impossible]] there.")
    span = np.maximum(data.schema.upper - data.schema.lower, 1)
    scaled = (data.clipped[rows] - data.schema.lower) / span
    rng = np.random.default_rng(seed)
    kmeans = KMeans(n_clusters=min(clusters, len(np.unique(scaled, axis=0))), n_init=1, random_state=seed % 2**32)
    with threadpool_limits(1):  # sums in another order could move a row to another cluster
        cluster = kmeans.fit_predict(scaled)
    members = [rng.permutation(rows[cluster == number]) for number in range(kmeans.n_clusters)]
    turn = np.concatenate([np.arange(len(group)) for group in members])
    number = np.repeat(np.arange(len(members)), [len(group) for group in members])
    order = np.lexsort((number, turn))
    return np.concatenate(members)[order][:count]
