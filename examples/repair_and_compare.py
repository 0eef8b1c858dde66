"""Repair a network, and compare it with what it was: how often it discriminates, and what that cost."""

# %% [markdown]
# How often does the built-in network for the credit data decide differently because of sex?

# %%
import evenhand

before = evenhand.measure("credit", "sex", half_width=0.01)
print(before)

# %% [markdown]
# The mean score over both values, weighted as in the training rows: nothing is trained, and no change of sex can change
# the label. Repairs learn from the training split only and are judged on held-out rows.

# %%
repaired = evenhand.repair("credit", "sex", "average", seeds=20, steps=20, epochs=3, repeats=2, half_width=0.01)
for row in repaired.summary["rows"]:
    rate = row["uniform"]
    print(f"{row['name']:10} accuracy {row['accuracy']:.1%}  rate over the domain {rate['rate']:.2%}")

# %% [markdown]
# The repaired network is an ordinary model. The same search against both, from the same seeds:

# %%
searches = {
    "as it was": evenhand.audit("credit", "sex", seeds=50, steps=50),
    "repaired": evenhand.audit("credit", "sex", model=repaired.model, seeds=50, steps=50),
}
for name, result in searches.items():
    print(f"{name}: {result.summary['search']['findings']['total']:,} findings")
assert searches["repaired"].summary["search"]["findings"]["total"] == 0

# %% [markdown]
# What did not change: attributes that stand in for sex are read as before. Group figures look at that other question.

# %%
after = evenhand.measure("credit", "sex", model=repaired.model, half_width=0.01)
print(after)
for figures in after.summary["groups"]:
    print(figures)
