"""Schemas that a careful user writes: bins, columns that go together or pass through, labels in any order."""

from pathlib import Path

from bench.truth import made_tables as made

HEAD = """
name = "people"
file = "people.csv"
[label]
column = "approved"
values = {values}
[[attribute]]
name = "age"
kind = "number"
step = 1
type = "integer"
domain = [18, 70]
"""
SEX = """
[[attribute]]
name = "sex"
kind = "category"
categories = ["female", "male"]
protected = true
"""
INCOME = """
[[attribute]]
name = "income"
kind = "number"
step = 50
type = "float"
domain = [5, 300]
"""
NO_FIRST = HEAD.format(values='["no", "yes"]')
YES_FIRST = HEAD.format(values='["yes", "no"]') + SEX + INCOME
BINS = (
    NO_FIRST.replace("step = 1\n", "width = 10\n").replace("[18, 70]", "[1, 7]")
    + SEX
    + """
[[attribute]]
name = "income"
kind = "number"
type = "float"
edges = [1000, 1500, 2000, 3000]
[[attribute]]
name = "hours"
kind = "number"
step = 5
type = "float"
domain = [1, 12]
missing = { value = "" }
"""
)
DERIVED = (
    NO_FIRST + SEX.replace("protected = true", "protected = true\n[attribute.along]\nsex_code = [1, 2]\n") + INCOME
)
ONE_HOT = (
    NO_FIRST
    + INCOME
    + f"""
[[attribute]]
name = "member"
kind = "category"
type = "boolean"
categories = ["False", "True"]
[[attribute]]
name = "Race"
kind = "category"
columns = {[f"Race_{race}" for race in made.RACES]}
protected = true
[[attribute]]
name = "Sex"
kind = "category"
columns = ["Sex_female", "Sex_male"]
protected = true
"""
)


def _passed(*columns: str) -> str:
    return "".join(f'[[attribute]]\nname = "{column}"\nkind = "pass"\n' for column in columns)


DATES = NO_FIRST + SEX + INCOME + _passed("id", "joined", "comment")
PASSED = (
    NO_FIRST
    + SEX
    + _passed("office", "long", "tiny", "flag", "loud", "note", "mixed", "part", "same", "empty", "born", "ratio")
)


def derived_table(folder: Path) -> Path:
    """Sex in words and as a number beside it."""
    frame = made.people()[["age", "sex", "income", "approved"]]
    path = folder / "people.csv"
    frame.assign(sex_code=frame["sex"].map({"female": 1, "male": 2})).to_csv(path, index=False)
    return path
