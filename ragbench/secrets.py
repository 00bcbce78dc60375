"""Values that must not reach a file, not even inside the text of an error: which they are.

A value is a secret by its declaration, by the name of its option or of its variable, or by its own
form: a key with the prefix of its vendor, an address with a password or a key in it, a text that
says `password=...`.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

MASK = "***"
"""What stands in place of a secret that has no name."""

_SHORTEST_KEY = 12  # of keys that nothing but a name tells
_SHORTEST_IN_URL = 8  # shorter parts of an address are words and numbers

_PLACEHOLDERS = frozenset(
    {"", "-", "x", "none", "null", "no", "false", "empty", "dummy", "local", "test", "unused"}
    | {"no-key", "nokey", "not-needed", "not_needed", "placeholder", "anonymous", MASK}
)
"""What stands where a server wants a key and reads none."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset(
    {"token", "secret", "secrets", "password", "passwords", "passwd", "pwd", "passphrase"}
    | {"passcode", "pin", "credential", "credentials", "auth", "authorization", "authentication"}
    | {"cookie", "cookies", "bearer", "apikey", "apikeys", "accesskey", "headers"}
    | {"jwt", "cred", "creds", "pw"}
)
_KEYS_OF = frozenset(
    {"api", "access", "secret", "private", "auth", "account", "subscription", "service", "master"}
    | {"encryption", "signing", "shared", "storage", "admin", "license", "client"}
)
"""Words before `key`: other keys, such as the `output_key` of a chain, hold no secret."""
_HARMLESS = ("accept", "content-", "user-agent")
"""How headers begin that say nothing of who asks."""
_SECRET_ENDS = ("key", "keys", "token", "secret", "password", "passwd", "credential", "credentials")
_OF_VARIABLES = frozenset(("pat", "sas", "dsn", "jwt", "signature"))
_FOLDERS = frozenset(("PWD", "OLDPWD"))  # of every shell: where it is, and where it was
_PLAIN_IN_QUERIES = frozenset(("api-version", "api_version"))  # dates, which are long
_IN_QUERIES = frozenset(("key", "sig", "signature", "code", "sas", "jwt"))

_OF_VENDORS = (
    r"(?:sk|pk|rk)-[\w-]{8,}|(?:gh[opsur]|hf|glpat|xox[a-z])[_-][\w-]{8,}|github_pat_\w{8,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{10,}\.[\w-]+\.[\w-]*"
    r"|(?:sk|rk|pk)_(?:live|test)_\w{8,}|(?:gsk|pcsk|lsv2_[a-z]+|whsec|npm|jina|shp[a-z]{2})_\w{16,}"
    r"|(?:nvapi|xai|pplx|tvly|pypi)-[\w-]{16,}|(?:ya29|hvs|SG)\.[\w.-]{12,}"
)
_KNOWN_FORM = re.compile(
    rf"{_OF_VENDORS}|(?:Bearer|Basic) \S{{4,}}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""How keys of well-known services begin."""
_IN_TEXT = re.compile(
    rf"(?<![\w/.-])(?:{_OF_VENDORS}|(?<=Bearer )[\w.+/=-]{{12,}}|(?<=Basic )[\w+/=-]{{12,}})"
)
_NAMED = re.compile(
    # of no more than 100 letters: names are looked for at each letter of a long text
    r"""(?P<flag>(?<!\S)-{1,2})?(?<![A-Za-z])(?P<name>[A-Za-z][\w-]{,99})"""
    r"""["']?(?:\s*[:=]\s*|(?(flag)[ ]|(?!)))["']?"""
    r"""(?P<value>[^\s;,&"'{}<>()]+)"""
)
_LOGIN = re.compile(r"(?<!\S)(?:\w+:/?)?[\w.%+-]*:([^\s/@:'\"]+)@[\w.-]+\S*")
"""What was meant as an address, such as `me:password@host/v1`."""
_PAIRS = re.compile(
    r"""[\w\s.-]+=[^;]*(?:;[\w\s.-]+=[^;]*)+;?\s*"""  # Server=db;Password=x
    r"""|\s*\w+\s*=\s*(?:'[^']*'|\S+)(?:\s+\w+\s*=\s*(?:'[^']*'|\S+))+\s*"""  # host=db password=x
    r"""|\?[\w.%-]+=[^&\s]*(?:&[\w.%-]+=[^&\s]*)*""",  # ?sv=2024&sig=x
)
_PAIR = re.compile(r"""([\w.%-][\w .%-]*?)\s*=\s*('[^']*'|[^;&\s]+)""")
_KEY_AND_DIGITS = re.compile("[A-Za-z_.-]+[0-9]{0,4}")  # `answer_2024` is a name


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def is_secret_option(name: str) -> bool:
    """Tell whether the name of an option says that its value is a secret.

    An option that ends in `_env` holds the name of a variable, which is none.

    Example:
        >>> [is_secret_option(name) for name in ("api_key", "X-Api-Key", "Authorization", "token")]
        [True, True, True, True]
        >>> [is_secret_option(name) for name in ("api_key_env", "max_tokens", "output_key", "key")]
        [False, False, False, False]
    """
    words = _words(name)
    if not words or words[-1] == "env":
        return False
    keys = itertools.pairwise(words)
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or any(last in ("key", "keys") and first in _KEYS_OF for first, last in keys)
        or any(word.endswith(_SECRET_ENDS[2:]) for word in words)  # authtoken
        or "connectionstring" in "".join(words)
        or (name.isupper() and is_secret_variable(name))  # of the environment of a program
    )


def is_secret_place(keys: Sequence[str]) -> bool:
    """Tell whether a key on the way to a value says so: all below `headers` or `auth` is secret.

    Example:
        >>> is_secret_place(["headers", "X-Tenant"]), is_secret_place(["headers", "Accept"])
        (True, False)
    """
    harmless = len(keys) > 1 and is_harmless(keys[-1])
    return not harmless and any(map(is_secret_option, keys))


def is_harmless(header: str) -> bool:
    """Tell whether a header says nothing of who asks."""
    return header.lower().startswith(_HARMLESS)


def is_secret_variable(name: str) -> bool:
    """Tell whether the name of a variable says so; rather once too often, its value is lost else.

    Example:
        >>> [is_secret_variable(name) for name in ("OPENAI_API_KEY", "MYTOKEN", "DB_PWD", "PIN")]
        [True, True, True, True]
        >>> [is_secret_variable(name) for name in ("TOKENIZER", "MAX_TOKENS", "AUTHOR", "PWD")]
        [False, False, False, False]
    """
    if name in _FOLDERS:
        return False
    words = _words(name)
    return not (_SECRET_WORDS | _OF_VARIABLES).isdisjoint(words) or any(
        word.endswith(_SECRET_ENDS) for word in words
    )


def of_process(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that a process was given, whether a config names them or not.

    What a library reads by itself may stand in its errors. They are told by the name of the
    variable and by their form: long, with letters and digits, and no path.

    Example:
        >>> of_process({"MY_API_KEY": "a1b2c3d4e5f6", "API_KEY_FILE": "/run/key1", "N": "x"})
        {'MY_API_KEY': 'a1b2c3d4e5f6'}
    """
    return {
        name: value
        for name, value in environment.items()
        if is_secret_variable(name) and len(value) >= _SHORTEST_KEY and _is_mixed(value)
    }


def _is_mixed(value: str) -> bool:
    has_both = re.search("[0-9]", value) and re.search("[A-Za-z]", value)
    return bool(has_both) and not (value.startswith(("/", "~", "./")) and os.path.exists(value))


def is_placeholder(value: str) -> bool:
    """Tell whether a value is one that people write where no key is needed, such as `none`."""
    return value.strip().lower() in _PLACEHOLDERS


def is_flag(text: str) -> bool:
    """Tell whether a text is an option of a command line whose value is a secret.

    Example:
        >>> is_flag("--api-key"), is_flag("--verbose"), is_flag("-")
        (True, False, False)
    """
    return text.startswith("-") and is_secret_option(text)


def is_key_like(name: str, value: str) -> bool:
    """Tell whether a value that is named as any key is one of a service, and no name of a field.

    Example:
        >>> [is_key_like(*each) for each in (("my_key", "7b2d6f0c19aa4e"), ("key", "answer_2024"))]
        [True, False]
    """
    if _words(name)[-1:] in (["pass"], ["userpass"], ["dbpass"]):
        return len(value) > 1 and not value.isdigit()  # no number of passes
    return (
        name.lower().endswith(("key", "keys"))
        and len(value) >= _SHORTEST_KEY
        and _is_mixed(value)
        and not re.search(r"[\s/]", value)
        and not _KEY_AND_DIGITS.fullmatch(value)
    )


def looks_secret(value: str) -> bool:
    """Tell whether the form of a value says that it is a secret, or has one in it.

    Example:
        >>> [looks_secret(v) for v in ("sk-12345678", "http://me:pw@h/v1", "http://h/?key=ab12")]
        [True, True, True]
        >>> [looks_secret(v) for v in ("cranfield", "http://h/?api-version=2024-10-21", "http://h")]
        [False, False, False]
    """
    return bool(_KNOWN_FORM.match(value) or secrets_in_url(value) or secrets_in_text(value))


@functools.lru_cache(maxsize=256)
def secrets_in_text(value: str) -> tuple[str, ...]:
    """Return the parts of a text that are secret: by the names before them, or by their form.

    In prose, a name alone does not tell: what follows it has to look like a key.

    Example:
        >>> secrets_in_text("Server=db;Password=hunter2"), secrets_in_text("the password: yours")
        (('hunter2',), ())
    """
    if "://" in value.partition(" ")[0] or _KNOWN_FORM.fullmatch(value):
        return ()
    found = {match[0] for match in _IN_TEXT.finditer(value) if re.search("[0-9]", match[0])}
    found |= {*_LOGIN.findall(value)}
    if _PAIRS.fullmatch(value):
        for name, said in _PAIR.findall(value):
            if is_secret_in_query(name.strip(), said, named=True) or _words(name)[-1:] == ["pass"]:
                found.add(said.strip("'"))
    for match in _NAMED.finditer(value):
        name, said = match["name"], match["value"]
        is_told = len(said) >= _SHORTEST_KEY and _is_mixed(said)
        if is_secret_option(name) and (is_told or (match["flag"] and len(said) >= 6)):
            found.add(said)
    return tuple(sorted(found - {""}, key=lambda each: (-len(each), each)))


def mask_secrets(value: str) -> str:
    """Write `***` for what is secret in an address or another text."""
    masked = mask_url(value)
    for part in secrets_in_text(value) if masked == value else ():
        masked = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", MASK, masked)
    return masked


@functools.lru_cache(maxsize=256)
def secrets_in_url(value: str) -> tuple[str, ...]:
    """Return the parts of an address that are secret, as written and decoded; longest first.

    These are the password with its user, a user of at least 8 characters without one, and what
    the query has under a secret name, or of at least 8 characters. What is no address has none.
    """
    if "://" not in value:
        return ()
    try:
        parts = urlsplit(value.strip())
        user, password = parts.username, parts.password
    except ValueError:
        return ()
    found = set()
    if password:
        found |= {parts.netloc.rpartition("@")[0], password}
    elif user and len(user) >= _SHORTEST_IN_URL:  # a token; a short one is a name
        found.add(user)
    for piece in re.split("[&;]", parts.query):
        name, _, written = piece.partition("=")
        if is_secret_in_query(unquote(name), written or name):
            found |= {written or name, *(v for _, v in parse_qsl(piece))}
    for name, value in parse_qsl(parts.fragment):
        if is_secret_in_query(name, value, named=True):
            found |= {value, *re.findall(rf"(?<={re.escape(name)}=)[^&;]+", parts.fragment)}
    found |= {unquote(each) for each in found}
    return tuple(sorted(found - {""}, key=lambda each: (-len(each), each)))


def is_secret_in_query(name: str, value: str, *, named: bool = False) -> bool:
    """Tell whether a value in the query of an address is a secret: by its name, or as a long one.

    With `named` the length says nothing.
    """
    if name.lower() in _PLAIN_IN_QUERIES:
        return False
    told = is_secret_option(name) or bool(_IN_QUERIES & {*_words(name)})
    return bool(value) and (told or (not named and len(value) >= _SHORTEST_IN_URL))


def mask_url(value: str) -> str:
    """Write `***` for what is secret in an address.

    Example:
        >>> mask_url("http://me:pw@host/v1?api_key=ab12&k=10")
        'http://***@host/v1?api_key=***&k=10'
    """
    if not secrets_in_url(value):
        return value
    parts = urlsplit(value.strip())
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(map(_masked_piece, re.split("[&;]", parts.query)))
    fragment = "&".join(_masked_piece(p) if "=" in p else p for p in parts.fragment.split("&"))
    hidden = f"{MASK}@{host}" if parts.password or parts.username else host
    return parts._replace(netloc=hidden, query=query, fragment=fragment).geturl()


def _masked_piece(piece: str) -> str:
    name, equals, written = piece.partition("=")
    if not is_secret_in_query(unquote(name), written or name):
        return piece
    return f"{name}={MASK}" if equals else MASK


@functools.lru_cache(maxsize=256)
def secret_fingerprint(value: str) -> str:
    """Return 12 bits of a slow hash: enough to see that a secret changed, too few to find it.

    Any list of guesses keeps one of 4,096 of its wrong ones, so that a weak password cannot be told
    from others. The salt is the same everywhere on purpose: each further salt, such as one of each
    run, would give away 12 bits more of the same secret. Two different secrets have the same
    fingerprint once in 4,096 times.

    Example:
        >>> secret_fingerprint("hunter2") == secret_fingerprint("hunter2")
        True
        >>> len(secret_fingerprint("hunter2"))
        3
    """
    data = value.encode("utf-8", "surrogateescape")
    return hashlib.scrypt(data, salt=b"ragbench.secret/1", n=1 << 14, r=8, p=1, dklen=2).hex()[:3]
