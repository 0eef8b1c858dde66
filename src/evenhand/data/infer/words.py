"""Words that say what a column or its values are: known names, without case and accents, and known orders."""

import re
import unicodedata

# What a person is, as a category. A number in such a column is a code.
CATEGORY_NAMES = frozenset(
    ["sex", "gender", "race", "ethnicity", "ethnic", "religion", "religious", "faith", "nationality", "native",
     "citizenship", "disability", "disabled", "marital", "pregnant", "pregnancy", "caste", "orientation", "veteran",
     "geschlecht", "konfession", "staatsangehorigkeit", "staatsburgerschaft", "nationalitat", "familienstand",
     "behinderung", "herkunft", "ethnie", "sexe", "nationalite", "handicap", "sexo", "genero", "raza", "etnia",
     "nacionalidad", "discapacidad"]
)  # fmt: skip
PROTECTED_NAMES = CATEGORY_NAMES | {"age", "alter", "edad"}  # also âge, since accents do not count
# Words that say nothing about what a column of 0 and 1 is about.
FILLERS = frozenset(["is", "has", "was", "are", "or", "and", "none", "flag", "ind", "indicator", "dummy"])
# What people are, by what it is about: a column of 0 and 1 may be called by such a word alone.
FAMILIES = {
    "sex": frozenset(
        ["male", "female", "man", "woman", "men", "women", "nonbinary", "diverse", "mannlich", "weiblich", "homme",
         "femme", "hombre", "mujer"]
    ),
    "race": frozenset(
        ["black", "white", "asian", "hispanic", "latino", "latina", "caucasian", "african", "american", "aframerican",
         "indigenous", "aboriginal", "islander", "multiracial"]
    ),
    "faith": frozenset(["christian", "muslim", "jewish", "hindu", "buddhist", "catholic", "protestant", "sikh"]),
}  # fmt: skip
CODE_NAMES = frozenset(
    ["zip", "zipcode", "postcode", "postal", "plz", "postleitzahl", "code", "codes", "id", "type", "category", "cat",
     "kind", "fips", "sector", "region", "district", "country", "nationality", "citizenship", "native"]
)  # fmt: skip
ID_NAMES = frozenset(
    ["id", "ids", "uuid", "guid", "key", "index", "idx", "row", "rownum", "number", "no", "nr", "serial", "ssn",
     "unnamed", "pid", "uid", "cid", "sid", "rid", "nid", "eid", "oid", "userid", "personid", "patientid", "customerid",
     "clientid", "caseid", "recordid", "rowid", "empid", "employeeid", "studentid", "memberid", "subjectid", "seqn",
     "seqno", "recno", "caseno", "phone", "telephone", "telefon", "tel", "mobile", "fax", "iban", "account"]
)  # fmt: skip
# Good news unless the question is whether something bad happens.
YES = frozenset(["yes", "y", "true", "t", "1", "positive", "ja", "j", "wahr", "oui", "vrai", "si", "verdadero"])
GOOD = YES | frozenset(
    ["approved", "approve", "accept", "accepted", "good", "hired", "hire", "pass", "passed", "granted", "grant",
     "admitted", "eligible", "low risk", "paid", "selected", "offer", ">50k", "genehmigt", "bewilligt", "angenommen",
     "accorde", "aprobado", "gut", "bon", "bueno"]
)  # fmt: skip
BAD = frozenset(["no", "n", "false", "f", "0", "nein", "falsch", "non", "faux", "falso"])
BAD_NAMES = frozenset(
    ["default", "defaulted", "fraud", "churn", "churned", "recid", "recidivism", "reoffend", "arrest", "arrested",
     "denied", "rejected", "declined", "bad", "delinquent", "delinquency", "risk", "failed", "fired", "toxic",
     "recidivist", "crime", "convicted", "accident", "bankrupt", "bankruptcy", "attrition", "dropout", "failure",
     "spam", "ausfall", "betrug", "abgelehnt", "defaut", "fraude", "refuse", "impago", "rechazado"]
)  # fmt: skip
# Who is said to be ill may be treated or refused: that one has it is surely no good news, that one has not may be.
ILL_NAMES = frozenset(
    ["stroke", "cancer", "tumor", "tumour", "disease", "illness", "diagnosis", "diabetes", "diabetic", "heart", "death",
     "died", "dead", "mortality", "readmitted", "readmission", "sepsis", "covid", "depression", "relapse", "infection",
     "schlaganfall", "krebs", "krankheit", "tod", "maladie", "deces", "enfermedad", "muerte"]
)  # fmt: skip
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


def simplified(text: str) -> str:
    """In lower case and without accents."""
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).lower()


def words_of(name: str) -> set[str]:
    """The words of a column's name: birth_country and birthCountry are both birth and country."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return set(re.findall(r"[^\W\d_]+", simplified(spaced)))


def is_about(name: str, members: frozenset[str]) -> bool:
    """Whether a name says nothing but one or several of these words: female, is_female, asian or black."""
    words = words_of(name)
    return bool(words & members) and words <= members | FILLERS


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
