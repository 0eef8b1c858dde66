"""Audit a scikit-learn pipeline on raw columns, and look at the pairs."""

# %% [markdown]
# The census data that comes with evenhand, and a gradient-boosting pipeline that reads its raw columns. Any estimator
# with `predict_proba` will do, and so will a function of a data frame.

# %%
from make_people import fit_pipeline, read_people

import evenhand

people = read_people()
train, held_out = people.iloc[:32561], people.iloc[32561:]
pipeline = fit_pipeline(train)
print(f"accuracy on held-out people: {pipeline.score(held_out.drop(columns='income'), held_out['income']):.1%}")

# %% [markdown]
# One call searches for pairs: people who differ only in sex and get different labels. The pipeline has no gradients, so
# the search takes a method that needs none, and says which.

# %%
result = evenhand.audit("census", "sex", model=pipeline, seeds=60, steps=40)
print(result)
print("method:", result.summary["config"]["method"])

# %% [markdown]
# The share of the data's own people who are discriminatory as they are, with its interval. This is a rate in a
# population; the share of generated samples is not.

# %%
rate = result.summary["data_rate"]["held_out"]
low, high = rate["interval"]
print(f"{rate['population']}: {rate['discriminatory']:,} of {rate['samples']:,}, {rate['rate']:.2%}")
print(f"{rate['confidence']:.0%} interval: {low:.2%} to {high:.2%}")

# %% [markdown]
# Every finding is a pair that was put to the pipeline. The clearest ones in words, and all of them as a data frame.

# %%
for example in result.summary["examples"][:2]:
    print(example["description"])
    for side in example["sides"]:
        print("  ", ", ".join(value for value, _ in side["protected"]), "→", side["label"])
print(result.findings[["sample.sex", "label", "witness.sex", "witness_label"]].astype(str).value_counts())

# %% [markdown]
# The report for people who do not read notebooks: one HTML file.

# %%
print("report:", result.report("census-sex.html"))
