"""Words that a reader may not want to meet unasked. They decide what a report blurs, and nothing else.

The labels cannot decide that: with two classes, one member of every pair has the unfavourable label, however harmless
the text is. A list of words is rough in both directions. Blurring too much costs a click, so it is kept wide; a
hateful text in polite words is not found.
"""

import re

# Anywhere in a word: "motherfucker".
ROOTS = "fuck bitch cunt nigg faggot whore"

# At the start of a word: "raped", "killing", "idiots".
STARTS = (
    "shit bullshit horseshit dipshit batshit asshole arsehole dumbass jackass dickhead wank pussy slut bastard retard "
    "prick douche turd crap piss cocksuck blowjob dildo orgasm mastur penis vagina porn incest sodom molest pedo "
    "paedo rape rapist kill murder exterminat subhuman vermin scum filth maggot parasit idiot moron imbecil cretin "
    "stupid dumb loser pathetic disgust tranny dyke wetback raghead towelhead sandnig cripple midget"
)

# The whole word only: as parts of words they mean something else.
WORDS = (
    "ass asses arse butt butthole anus cock cocks dick dicks tits boobs cum fag fags fagot homo homos lesbo kike kikes "
    "spic spics chink chinks gook gooks coon coons paki pakis jap japs negro negroes darkie darky honky redneck die "
    "fuk fuking fuker suck sucks sucker jerk pig pigs rat rats monkey monkeys ape apes trash garbage stfu gtfo wtf kys"
)

_roots, _starts, _words = tuple(ROOTS.split()), tuple(STARTS.split()), frozenset(WORDS.split())
_DISGUISES = str.maketrans("013@$", "oieas")
_LETTERS = re.compile(r"[^\W\d_]+")
_MASKED = re.compile(r"[^\W\d_]\*+[^\W\d_]")  # f**k
_DRAWN_OUT = re.compile(r"(\w)\1{2,}")  # fuuuuck


def has_strong_words(text: str) -> bool:
    """Whether a text holds a listed word, also drawn out ("fuuuck"), masked ("f**k") or with digits ("sh1t")."""
    lower = text.lower()
    readings = {lower, _DRAWN_OUT.sub(r"\1", lower), lower.translate(_DISGUISES)}
    words = {word for reading in readings for word in _LETTERS.findall(reading)}
    if any(root in reading for root in _roots for reading in readings) or not words.isdisjoint(_words):
        return True
    return any(word.startswith(_starts) for word in words) or bool(_MASKED.search(lower))
