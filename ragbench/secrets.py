"""Recognition of secrets, and their removal from texts.

A value is secret by the declaration or the name of its option, by the name of its variable, or by
its form: a key with the prefix of a vendor, an address with a password or key, a text with
`password=...`. A secret is removed from texts in three forms: as written, URL-encoded, in base64.
Values of 6 or 7 characters are removed as whole words only, and shorter ones only in their own
address: otherwise a secret `a` would remove every `a` of a report.
"""

from __future__ import annotations

import base64
import binascii
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import unquote

# Replacement of a secret that has no name.
MASK = "***"
# Characters from which a secret is removed from texts.
SHORTEST = 6
_SHORTEST_ANYWHERE = 8  # shorter secrets are removed as whole words only
_SHORTEST_KEY = 12  # shortest value that counts as a key by its name and random look
_SHORTEST_IN_URL = 8  # shorter parts of an address are words and numbers

# Values that people write for a server that needs some key but does not check it.
_PLACEHOLDERS = frozenset(
    {"", "-", "x", "none", "null", "no", "false", "empty", "dummy", "local", "test", "unused"}
    | {"no-key", "nokey", "not-needed", "not_needed", "placeholder", "anonymous", MASK}
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = (
    r"(?:token|secrets?|passwords?|passwd|credentials?)(?:_|$)|(?:^|_)(?:user|db)?pass$"
    r"|(?:^|_)(?:pwd|pw|passphrase|passcode|pin|auth|authorization|authentication|cookies?|bearer"
    r"|apikeys?|accesskey|headers|jwt|creds?)(?:_|$)"
)
# Words in the name of a secret option; other keys, such as `output_key` of a chain, are none.
_OPTION = re.compile(
    rf"{_SECRET_WORDS}|connection_?string|(?:^|_)(?:api|access|secret|private|auth|account|service"
    r"|subscription|master|encryption|signing|shared|storage|admin|license|client)_keys?(?:_|$)"
)
_VARIABLE = re.compile(rf"{_SECRET_WORDS}|keys?(?:_|$)|(?:^|_)(?:pat|sas|dsn|signature)(?:_|$)")
_IN_QUERY = re.compile(r"(?:^|_)(?:key|sig|signature|code|sas|jwt)(?:_|$)")
_HARMLESS = ("accept", "content-", "user-agent")  # headers that do not identify the sender
_FOLDERS = ("PWD", "OLDPWD")  # working directories, although the names contain `PWD`
_PLAIN_IN_QUERIES = ("api-version", "api_version")  # dates, long enough to look like keys

# Keys of well-known services.
_VENDOR = re.compile(
    r"(?<![\w/.-])(?:(?:sk|pk|rk)-[\w-]{8,}|(?:gh[opsur]|hf|glpat|xox[a-z])[_-][\w-]{8,}"
    r"|github_pat_\w{8,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{10,}\.[\w-]+\.[\w-]*"
    r"|(?:sk|rk|pk)_(?:live|test)_\w{8,}|(?:gsk|pcsk|lsv2_[a-z]+|whsec|npm|jina|shp[a-z]{2})_\w{16,}"
    r"|(?:nvapi|xai|pplx|tvly|pypi)-[\w-]{16,}|(?:ya29|hvs|SG)\.[\w.-]{12,}"
    r"|(?<=Bearer )[\w.+/=-]{12,}|(?<=Basic )[\w+/=-]{12,})"
)
_PRIVATE_KEY = "-----BEGIN "
_ASSIGNMENT = re.compile(
    # names of at most 100 characters: without a limit, a long text takes quadratic time
    r"""(?P<flag>(?<!\S)-{1,2})?(?<![A-Za-z])(?P<name>[A-Za-z][\w-]{,99})["']?"""
    r"""(?:\s*(?P<sign>[:=])\s*|(?(flag)[ ]|(?!)))["']?(?P<value>[^\s;,&"'{}<>()]+)"""
)
_USER = re.compile(r"(?<=://)[^\s/?#'\"<>]+(?=@)")
# An address without its scheme, such as `me:password@host/v1`.
# A host is no number, unlike the cutoff of `python:module:measure@5`.
_LOGIN = re.compile(
    r"(?<!\S)(?:\w+:/?)?[\w.%+-]*:(?P<password>[^\s/@:'\"]+)@(?!\d+(?:\s|$))[\w.-]+\S*"
)
_QUERY = re.compile(r"(?P<start>[?&;#])(?:(?P<name>[\w.%-]+)=)?(?P<value>[^\s&;#'\"<>]+)")
_MEDIA_TYPE = re.compile(r"(?:application|text|image|audio|multipart)/[\w.+*-]+")
_NAME_AND_NUMBER = re.compile("[A-Za-z_.-]+[0-9]{0,4}")  # `answer_2024` is the name of a field


def _normalized(name: str) -> str:
    """Return the words of a name in lower case, joined by '_', without digits."""
    return "_".join(_WORD.findall(name)).lower()


def is_secret_option(name: str) -> bool:
    """Return True if the name of an option says that its value is a secret.

    An option that ends in `_env` holds the name of a variable, which is no secret.

    Example:
        >>> [is_secret_option(name) for name in ("api_key", "X-Api-Key", "Authorization", "token")]
        [True, True, True, True]
        >>> [is_secret_option(name) for name in ("api_key_env", "max_tokens", "output_key", "key")]
        [False, False, False, False]
    """
    words = _normalized(name)
    if words.split("_")[-1] in ("", "env"):
        return False
    return bool(_OPTION.search(words)) or (name.isupper() and is_secret_variable(name))


def is_secret_variable(name: str) -> bool:
    """Return True if the name of a variable says that its value is a secret.

    Example:
        >>> [is_secret_variable(name) for name in ("OPENAI_API_KEY", "MYTOKEN", "DB_PWD", "PIN")]
        [True, True, True, True]
        >>> [is_secret_variable(name) for name in ("TOKENIZER", "MAX_TOKENS", "AUTHOR", "PWD")]
        [False, False, False, False]
    """
    return name not in _FOLDERS and bool(_VARIABLE.search(_normalized(name)))


def is_secret_place(keys: Sequence[str]) -> bool:
    """Return True if a key on the path to a value is secret, as all keys below `headers` or `auth`.

    A last key that is a harmless header, below another key, gives False.

    Example:
        >>> is_secret_place(["headers", "X-Tenant"]), is_secret_place(["headers", "Accept"])
        (True, False)
    """
    is_plain_header = len(keys) > 1 and is_harmless(keys[-1])
    return not is_plain_header and any(map(is_secret_option, keys))


def is_harmless(header: str) -> bool:
    """Return True if a header does not identify the sender, by the start of its name.

    Such names start with `accept`, `content-` or `user-agent`, in any case of letters.
    """
    return header.lower().startswith(_HARMLESS)


def is_placeholder(value: str) -> bool:
    """Return True for '' and values such as `none`, which stand for a key that nobody checks."""
    return value.strip().lower() in _PLACEHOLDERS


def is_key_like(name: str, value: str) -> bool:
    """Return True if `name` ends in `key` or `keys`, and `value` looks random.

    Such a value has 12 or more characters with letters and digits, without blanks and '/'. A name
    with up to four digits behind it, as `answer_2024`, does not look random.

    Example:
        >>> is_key_like("my_key", "7b2d6f0c19aa4e"), is_key_like("key", "answer_2024")
        (True, False)
    """
    is_name = re.search(r"[\s/]", value) or _NAME_AND_NUMBER.fullmatch(value)
    return name.lower().endswith(("key", "keys")) and _looks_random(value) and not is_name


def _looks_random(value: str) -> bool:
    """Return True for 12 or more characters with an ASCII letter and a digit among them."""
    is_mixed = re.search("[0-9]", value) and re.search("[A-Za-z]", value)
    is_file = value.startswith(("/", "~", "./")) and os.path.exists(value)
    return len(value) >= _SHORTEST_KEY and bool(is_mixed) and not is_file


def secrets_of_process(environment: Mapping[str, str]) -> dict[str, str]:
    """Return {name: value} of the variables whose name is secret and whose value looks random.

    Such a value has 12 or more characters with a letter and a digit, and is no path of a file.

    Libraries read keys from the environment by themselves and show them in their errors, so that a
    config need not name them.

    Example:
        >>> secrets_of_process({"MY_API_KEY": "a1b2c3d4e5f6", "API_KEY_FILE": "/run/key1"})
        {'MY_API_KEY': 'a1b2c3d4e5f6'}
    """
    secrets = {}
    for name, value in environment.items():
        if is_secret_variable(name) and _looks_random(value):
            secrets[name] = value
    return secrets


def _is_secret_in_query(name: str, value: str, *, by_length: bool) -> bool:
    if name.lower() in _PLAIN_IN_QUERIES:
        return False
    is_named = is_secret_option(name) or bool(_IN_QUERY.search(_normalized(name)))
    return is_named or (by_length and len(value) >= _SHORTEST_IN_URL)


def _address_spans(text: str, *, strict: bool) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the logins and the secret parts of queries in addresses."""
    for match in _USER.finditer(text):
        if ":" in match[0] or (strict and len(match[0]) >= _SHORTEST_IN_URL):
            yield match.span()
    for match in _QUERY.finditer(text):
        by_length = strict and match["start"] != "#" and "://" in text
        if not strict and match["start"] not in "?&":
            continue
        if _is_secret_in_query(unquote(match["name"] or ""), match["value"], by_length=by_length):
            yield match.span("value")


def _is_address(value: str) -> bool:
    return "://" in value.partition(" ")[0]


@functools.lru_cache(maxsize=256)
def _spans(value: str) -> tuple[tuple[int, int], ...]:
    """Return the sorted (start, end) of secret parts, by their form or the name before them."""
    if value.startswith(_PRIVATE_KEY) or _VENDOR.fullmatch(value):
        return ((0, len(value)),)
    if _is_address(value) or re.fullmatch(r"\?\S+", value):
        return tuple(sorted({*_address_spans(value, strict=True)}))
    spans = {m.span() for m in _VENDOR.finditer(value) if re.search("[0-9]", m[0])}
    spans |= {m.span("password") for m in _LOGIN.finditer(value)}
    spans |= {*_address_spans(value, strict=False)} if "://" in value else set()
    for match in _ASSIGNMENT.finditer(value):
        # in prose a colon may follow any word, so the value has to look like a key
        is_given = match["sign"] == "=" or (match["flag"] and len(match["value"]) >= SHORTEST)
        if is_secret_option(match["name"]) and (is_given or _looks_random(match["value"])):
            spans.add(match.span("value"))
    return tuple(sorted(spans))


def secret_parts(value: str) -> tuple[str, ...]:
    """Return the secret parts of an address or another text, the longest first.

    The parts are given as written and URL-decoded; none give an empty tuple.

    Example:
        >>> secret_parts("Server=db;Password=hunter2"), secret_parts("the password: yours")
        (('hunter2',), ())
        >>> secret_parts("http://me:pw@host/?api_key=ab%2F1")
        ('ab%2F1', 'me:pw', 'ab/1', 'pw')
    """
    parts = {value[start:end] for start, end in _spans(value)}
    parts |= {part.partition(":")[2] for part in parts if f"://{part}@" in value}
    parts |= {unquote(part) for part in parts}
    return tuple(sorted(parts - {""}, key=lambda part: (-len(part), part)))


def looks_secret(value: str) -> bool:
    """Return True if a value has the form of a secret, or contains one.

    Example:
        >>> [looks_secret(v) for v in ("sk-12345678", "http://me:pw@h/v1", "http://h/?key=ab12")]
        [True, True, True]
        >>> [looks_secret(v) for v in ("cranfield", "http://h/?api-version=2024-10-21", "http://h")]
        [False, False, False]
    """
    return bool(_spans(value))


def mask_secrets(value: str) -> str:
    """Return an address or another text with `***` for the secrets in it; else as it is.

    Example:
        >>> mask_secrets("http://me:pw@host/v1?api_key=ab12&k=10")
        'http://***@host/v1?api_key=***&k=10'
    """
    return _masked(value, _spans(value))


def mask_addresses(text: str) -> str:
    """Return a text with `***` for logins and named keys in the addresses in it.

    A user without a password stays.

    Example:
        >>> mask_addresses("GET http://me:pw@host/v1?api_key=ab&k=10")
        'GET http://***@host/v1?api_key=***&k=10'
    """
    return _masked(text, sorted({*_address_spans(text, strict=False)})) if "://" in text else text


def _masked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text with `***` in place of some parts."""
    pieces, done = [], 0
    for start, end in spans:
        if start >= done:
            pieces += [text[done:start], MASK]
            done = end
    return "".join([*pieces, text[done:]])


class Redactor:
    """Replacement of secrets in texts by `${NAME}`, their variable or place in a config.

    A call with a text returns the new text. A secret part of an address becomes `***`, and so does
    a secret whose name has a `"`. An object without any secret is False. Values shorter
    than 6 characters stay, except in their address, and so do values of 6 or 7 characters that do
    not mix letters with others; placeholders such as `none` stay too. Of two names with one value
    the first is written.

    Example:
        >>> clean = Redactor({"API_KEY": "sk-12/34", "PIN": "4"})
        >>> clean("401: bad key sk-12/34, 'sk-12%2F34', 4 times")
        "401: bad key ${API_KEY}, '${API_KEY}', 4 times"
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        replacements: dict[str, str] = {}
        self._needles: list[tuple[str, Callable[[str], re.Pattern[str]], str, str]] = []
        for name, value in secrets.items():
            parts = secret_parts(value) if _is_address(value) else ()
            for place, text in _places_in_address(value) if parts else ():
                self._needles.append((place, _place_pattern, place, text))
            for part in parts or _parts_of(value):
                if _is_removed(part):
                    replacements.setdefault(part, MASK if parts or '"' in name else f"${{{name}}}")
        # a whole value before its parts: afterwards the value would not match
        for part in sorted(replacements, key=len, reverse=True):
            encoded = base64.b64encode(part.encode("utf-8", "surrogateescape")).decode()
            for form, pattern in ((part, _pattern), (encoded.rstrip("="), _base64_pattern)):
                word = max(re.findall("[A-Za-z0-9]+", form), key=len, default="")
                self._needles.append((word, pattern, form, replacements[part]))

    def __call__(self, text: str) -> str:
        """Return a text with each secret replaced; without secrets as it is."""
        for word, pattern, form, replacement in self._needles:
            # most texts hold no secret: the cheap search for a word saves compiling the pattern
            if word in text:
                text = pattern(form).sub(replacement.replace("\\", r"\\"), text)
        return text

    def __bool__(self) -> bool:
        return bool(self._needles)


def _is_removed(part: str) -> bool:
    if len(part) < _SHORTEST_ANYWHERE:
        is_mixed = re.search("[A-Za-z]", part) and re.search("[^A-Za-z]", part)
        return len(part) >= SHORTEST and bool(is_mixed)
    return not is_placeholder(part)


def _parts_of(value: str) -> Iterator[str]:
    """Yield a secret as it is, stripped and URL-decoded, then its parts; a part may come twice."""
    bare = value.strip()
    if _MEDIA_TYPE.fullmatch(bare):
        return
    yield from (value, bare, unquote(bare), *secret_parts(value))
    words = re.split(r"[\s;,]+", bare)
    for word in words if len(words) > 1 else ():
        _, _, assigned = word.strip('"').partition("=")
        for part in (word, assigned):
            if len(part) >= _SHORTEST_ANYWHERE:
                yield part
    login = _from_base64(words[-1]) if len(words) <= 2 else ""
    for pair, is_login in ((login, True), (bare, False)):
        user, _, password = pair.partition(":")
        is_password = is_login or re.search("[^A-Za-z]", password)  # `llama3:instruct` is a model
        if user and is_password and not re.search(r"[\x00-\x20\x7f-\x9f]|://", pair):
            yield from (pair, password)


def _from_base64(text: str) -> str:
    """Return the text in a base64 code; it is empty if it is none."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""


def _places_in_address(value: str) -> Iterator[tuple[str, str]]:
    """Yield the secret parts of an address with their context, each with its replacement."""
    spans = _spans(value)
    for match in _USER.finditer(value):
        yield f"{match[0]}@", f"{MASK}@"
    for match in _QUERY.finditer(value):
        if match["name"] and match.span("value") in spans:
            yield f"{match['name']}={match['value']}", f"{match['name']}={MASK}"


@functools.lru_cache(maxsize=4096)
def _place_pattern(place: str) -> re.Pattern[str]:
    pattern = re.escape(place)
    return re.compile(pattern if place.endswith("@") else rf"(?<=[?&;]){pattern}(?![\w%])")


@functools.lru_cache(maxsize=4096)
def _pattern(value: str) -> re.Pattern[str]:
    """Return the pattern of a value, its characters as they are or URL-encoded."""
    pieces = []
    for character in value:
        encoded = "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))
        if character.isalnum() and character.isascii():
            pieces.append(character)
        else:
            blank = r"|\+" if character == " " else ""
            # the longer form first: `%` alone would match in `%25` and leave the digits
            pieces.append(f"(?:(?i:{encoded})|{re.escape(character)}{blank})")
    pattern = "".join(pieces)
    if len(value) < _SHORTEST_ANYWHERE:
        pattern = rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])"
    return re.compile(pattern)


@functools.lru_cache(maxsize=4096)
def _base64_pattern(encoded: str) -> re.Pattern[str]:
    return re.compile(re.escape(encoded).replace(r"\+", "[+-]").replace("/", "[/_]") + "={0,2}")


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text without the given secrets (name -> value), as `Redactor` replaces them.

    Example:
        >>> redact("no host in http://me:hunter2@h/v1", {"URL": "http://me:hunter2@h/v1"})
        'no host in http://***@h/v1'
    """
    return redactor(secrets)(text)


def redactor(secrets: Mapping[str, str]) -> Redactor:
    """Return the `Redactor` of some secrets, cached: patterns are compiled once."""
    return _redactor(tuple(secrets.items()))


@functools.lru_cache(maxsize=64)
def _redactor(secrets: tuple[tuple[str, str], ...]) -> Redactor:
    return Redactor(dict(secrets))


# Secrets of this process; replaced by a new mapping, since other threads may read it.
_noted: Mapping[str, str] = {}


def note_secrets(secrets: Mapping[str, str]) -> None:
    """Register the secrets of a config for `printed`: name -> value; they stay for the process.

    A name that is registered already gets the new value.
    """
    global _noted
    _noted = {**_noted, **secrets}


def printed(text: str) -> str:
    """Return a text for printing or logging, without registered secrets and logins of addresses.

    A secret becomes `${NAME}`, as `Redactor` does it; a login or a named key of an address `***`.
    """
    return mask_addresses(redactor(_noted)(text))
