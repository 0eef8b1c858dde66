"""Accounts: users with passwords, roles in projects, sign-ins, tokens."""

from evenhand.service.storage.database import Database
from evenhand.service.storage.people import ROLES, NoSuchProject, Person, Role, at_least, person_of
from evenhand.service.storage.sign_ins import SignIns
from evenhand.service.storage.tokens import Tokens
from evenhand.service.storage.tries import MOST_WAITING, SignInRefused, TooBusy, TooManyTries
from evenhand.service.storage.users import Users

__all__ = [
    "MOST_WAITING",
    "ROLES",
    "Accounts",
    "NoSuchProject",
    "Person",
    "Role",
    "SignInRefused",
    "TooBusy",
    "TooManyTries",
    "at_least",
    "person_of",
]


class Accounts(Users, SignIns, Tokens):
    """The accounts of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database
