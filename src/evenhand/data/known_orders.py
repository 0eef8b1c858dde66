"""Words that have an order: low, medium, high; school degrees; ranges such as 18-24."""

import re

# Ranks in rising order, separated by |; words of the same rank by commas.
KNOWN = [
    "very low|low|medium,mid,middle,moderate,average,normal|high|very high",
    "tiny|extra small,xs|small,s|medium,m|large,l|extra large,xl|xxl,2xl|xxxl,3xl",
    "very poor|poor|fair|good|very good|excellent",
    "very bad|bad|fair,average,ok,okay|good|very good|excellent",
    "never|rarely,seldom|sometimes,occasionally|often,frequently|always",
    "strongly disagree|disagree|neutral,neither|agree|strongly agree",
    "very dissatisfied|dissatisfied|neutral|satisfied|very satisfied",
    "beginner|intermediate|advanced|expert",
    "trainee,intern|junior|mid,mid level,medior|senior|lead|principal",
    "bronze|silver|gold|platinum|diamond",
    "little|moderate|quite rich|rich",
    "none|mild|moderate|severe|very severe",
    "young|middle aged|old",
    "first|second|third|fourth|fifth",
    "primary|secondary|tertiary",
    "preschool|1st 4th|5th 6th|7th 8th|9th|10th|11th|12th|hs grad|some college|assoc voc|assoc acdm|bachelors|masters"
    "|prof school|doctorate",
    "none,no degree,no education|primary,primary school,elementary,elementary school|middle school,lower secondary"
    "|some high school|high school,high school diploma,secondary,secondary school,highschool,hs|some college"
    "|vocational,apprenticeship|associate,associate degree,associates|college,bachelor,bachelors,bachelor degree,"
    "undergraduate,university|graduate,master,masters,master degree,postgraduate|phd,doctorate,doctoral",
]
RANGE = re.compile(
    r"(?P<below><=?|under|below|less than|up to)?\s*[$€£]?(?P<number>\d+(?:\.\d+)?)k?"
    r"\s*(?:(?:-|–|to|up to)\s*[$€£]?\d+(?:\.\d+)?k?|(?P<above>\+|or more|and over|and above|plus))?"
)


def in_known_order(values: list[str]) -> list[str] | None:
    """The values in rising order where their words have one."""
    if len(values) < 2:
        return None
    plain = {value: _plain(value) for value in values}
    if len(set(plain.values())) < len(values):
        return None
    for ranks in KNOWN:
        rank = {word: number for number, words in enumerate(ranks.split("|")) for word in words.split(",")}
        if all(word in rank for word in plain.values()) and len({rank[word] for word in plain.values()}) == len(values):
            return sorted(values, key=lambda value: rank[plain[value]])
    return _ranges(values)


def _plain(value: str) -> str:
    return re.sub(r"[\s_-]+", " ", value.lower().replace("'s", "")).strip()


def _ranges(values: list[str]) -> list[str] | None:
    """Ranges of numbers, such as <18, 18-24, 65+, by where they begin."""
    found = {value: RANGE.fullmatch(value.lower().replace(",", "").strip()) for value in values}
    starts: dict[str, tuple[float, int]] = {}
    for value, match in found.items():
        if match is None:
            return None
        starts[value] = (float(match["number"]), -1 if match["below"] else 1 if match["above"] else 0)
    if len(set(starts.values())) < len(values):
        return None
    return sorted(values, key=lambda value: starts[value])
