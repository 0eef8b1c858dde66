"""Names of columns that say what their values are. They are written in lower case and without accents."""

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


def plain(text: str) -> str:
    """In lower case and without accents."""
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).lower()


def words_of(name: str) -> set[str]:
    """The words of a column's name: birth_country and birthCountry are both birth and country."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return set(re.findall(r"[^\W\d_]+", plain(spaced)))


def is_about(name: str, members: frozenset[str]) -> bool:
    """Whether a name says nothing but one or several of these words: female, is_female, asian or black."""
    words = words_of(name)
    return bool(words & members) and words <= members | FILLERS
