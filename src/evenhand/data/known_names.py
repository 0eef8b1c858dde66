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
CODE_NAMES = frozenset(
    ["zip", "zipcode", "postcode", "postal", "plz", "postleitzahl", "code", "codes", "id", "type", "category", "cat",
     "kind", "fips", "sector", "region", "district", "country", "nationality", "citizenship", "native"]
)  # fmt: skip
ID_NAMES = frozenset(
    ["id", "ids", "uuid", "guid", "key", "index", "idx", "row", "rownum", "number", "no", "nr", "serial", "ssn",
     "unnamed", "phone", "telephone", "telefon", "tel", "mobile", "fax", "iban", "account"]
)  # fmt: skip
GOOD = frozenset(
    ["yes", "y", "true", "t", "1", "approved", "approve", "accept", "accepted", "good", "hired", "hire", "pass",
     "passed", "granted", "grant", "admitted", "eligible", "positive", "low risk", "paid", "selected", "offer", ">50k",
     "ja", "j", "wahr", "oui", "vrai", "si", "verdadero", "genehmigt", "bewilligt", "angenommen", "accorde",
     "aprobado", "gut", "bon", "bueno"]
)  # fmt: skip
BAD = frozenset(["no", "n", "false", "f", "0", "nein", "falsch", "non", "faux", "falso"])
BAD_NAMES = frozenset(
    ["default", "defaulted", "fraud", "churn", "churned", "recid", "recidivism", "reoffend", "arrest", "arrested",
     "denied", "rejected", "declined", "bad", "delinquent", "delinquency", "risk", "failed", "fired", "toxic",
     "ausfall", "betrug", "abgelehnt", "defaut", "fraude", "refuse", "impago", "rechazado"]
)  # fmt: skip


def plain(text: str) -> str:
    """In lower case and without accents."""
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).lower()


def words_of(name: str) -> set[str]:
    """The words of a column's name: birth_country and birthCountry are both birth and country."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return set(re.findall(r"[^\W\d_]+", plain(spaced)))
