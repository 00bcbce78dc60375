"""Values that count as secrets, and their remains in a text."""

import pytest

from ragbench.secrets import (
    is_secret_option,
    is_secret_variable,
    looks_secret,
    mask_secrets,
    redact,
)

VARIABLES = {
    True: "OPENAI_API_KEY OPENAIKEY MyToken TOKEN1 HF_TOKEN DB_PASSWORD DB_PWD GITHUB_PAT PIN "
    "AWS_SECRET_ACCESS_KEY BASIC_AUTH SESSION_COOKIE AZURE_SAS client_secret",
    False: "K1 DS DATA PATH PWD HOME TOKENIZER MAX_TOKENS AUTHOR KEYWORDS OPENAI_BASE_URL MODEL",
}
OPTIONS = {
    True: "api_key apiKey X-Api-Key access_token password Authorization headers client_secret auth "
    "authtoken PINECONE_KEY jwt creds connection_string",
    False: "api_key_env max_tokens tokenizer output_key key keywords k1 path model tokens",
}


@pytest.mark.parametrize(("tells", "names"), [(is_secret_variable, VARIABLES)])
def test_names_of_variables(tells, names):
    for secret, listed in names.items():
        assert {name: tells(name) for name in listed.split()} == dict.fromkeys(
            listed.split(), secret
        )


def test_no_option_of_ours_but_headers_sounds_secret():
    for secret, listed in OPTIONS.items():
        for name in listed.split():
            assert is_secret_option(name) is secret, name


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "Server=db;User ID=sa;Password=x1;Encrypt=yes",
            "Server=db;User ID=sa;Password=***;Encrypt=yes",
        ),
        ("host=db user=me password=b dbname=x", "host=db user=me password=*** dbname=x"),
        ("?sv=2022-01-01&sig=ab%2B", "?sv=2022-01-01&sig=***"),
        ("curl -H 'Authorization: Bearer abcdefgh1234' x", "curl -H 'Authorization: Bearer ***' x"),
        ("run --api-key=abcdef --token abcdef -v", "run --api-key=*** --token *** -v"),
        ('{"api_key": "abcdefgh1234", "k": 3}', '{"api_key": "***", "k": 3}'),
        ("Say sk-abcdefgh1234 to nobody.", "Say *** to nobody."),
        ("me:pa55@host/v1", "me:***@host/v1"),
        ("python:my_measures:distance@5", "python:my_measures:distance@5"),
        ("me:pa55@10.0.0.1/v1", "me:***@10.0.0.1/v1"),
        (
            "Ask for the password: never. token: {token}",
            "Ask for the password: never. token: {token}",
        ),
        ("max_tokens=12 temperature=0", "max_tokens=12 temperature=0"),
        ("/data/sk-experiments-2024/x", "/data/sk-experiments-2024/x"),
        ("SELECT a FROM b WHERE c=1; -- x", "SELECT a FROM b WHERE c=1; -- x"),
    ],
)
def test_texts(text, masked):
    assert mask_secrets(text) == masked
    assert looks_secret(text) is (text != masked)


@pytest.mark.parametrize(
    "text", ["gsk_abcdefgh12345678", "ya29.a0AfabcdEFGH-1", "sk_live_51Habcdefgh"]
)
def test_keys_of_vendors(text):
    assert looks_secret(text)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://h/cb#access_token=ab", "https://h/cb#access_token=***"),
        ("https://h/page#token-section", "https://h/page#token-section"),
        ("http://me:pw@h:8/v1", "http://***@h:8/v1"),
        ("http://a-long-token@h/", "http://***@h/"),
        ("http://me@h/", "http://me@h/"),
        ("https://h/?k=10&sig=ab", "https://h/?k=10&sig=***"),
        ("https://h/?opaque0123456789", "https://h/?***"),
        ("https://h/v1", "https://h/v1"),
        ("postgresql://u:p%40w@h/db", "postgresql://***@h/db"),
        ("http://[broken", "http://[broken"),
    ],
)
def test_addresses(url, masked):
    assert mask_secrets(url) == masked
    assert looks_secret(url) is (url != masked)


def test_parts_of_an_address_are_hidden_wherever_they_stand():
    secrets = {"URL": "postgresql://u:p%40ss-word@h/db?token=abcd-1"}

    cleaned = redact("p@ss-word, p%40ss-word and abcd-1, but not u and h", secrets)

    assert cleaned == "***, *** and ***, but not u and h"


def test_longer_secrets_first_and_placeholders_never():
    secrets = {"A": "abc-ef", "B": "abc-efgh", "C": "none", "D": "a b", "args.api_key": "uvwxy1"}

    assert redact("abc-efgh abc-ef none uvwxy1", secrets) == "${B} ${A} none ${args.api_key}"


def test_a_name_tells_behind_any_words():
    for words in ("", "my ", "with my ", "with all my "):
        assert mask_secrets(f"{words}password=7b2d6f0c19aa4e") == f"{words}password=***"


@pytest.mark.parametrize("unit", ["a", "eyJ", "a-", "a1", "a ", "a=b ", "a: ", "x@", "?a=b&", " "])
def test_long_texts_are_looked_through_in_one_go(unit):
    # 20,000 letters: a search that goes on from each one to the end takes minutes.
    text = unit * (20_000 // len(unit)) + " password=7b2d6f0c19aa4e"

    assert mask_secrets(text) == text.replace("7b2d6f0c19aa4e", "***")
