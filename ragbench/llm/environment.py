"""Environment of requests: keys, proxies and certificates."""

from __future__ import annotations

import functools
import ipaddress
import os
import re
import ssl
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from ragbench.errors import OptionError, Phrase

# Beside SSL_CERT_FILE and SSL_CERT_DIR, which the HTTP package reads itself.
BUNDLE = "REQUESTS_CA_BUNDLE"
_QUOTES = re.compile("[\"'`\u00ab\u00bb\u2018-\u201f\u2039\u203a]")


def read_key(variable: str) -> str:
    """Return the key of an environment variable without surrounding blanks; empty if not set.

    Raises:
        OptionError: The value cannot be a key. The message names the variable, and shows no part
            of its value.
    """
    key = os.environ.get(variable, "").strip()
    problem = _problem_of(key)
    if problem:
        allowed = "the key alone, as the server shows it"
        value = Phrase(f"{variable!r}, whose value has {problem}")
        raise OptionError("openai", "api_key_env", value, allowed)
    return key


def _problem_of(key: str) -> str:
    """Return the defect of a key in words; empty for a key that a header can carry."""
    if "\n" in key or "\r" in key:
        return "a line break inside"
    if _QUOTES.search(key):
        return "quotes"
    if key.lower().startswith("bearer"):
        return "'Bearer' before the key"
    if re.search(r"\s", key):
        return "a blank inside"
    if not (key.isascii() and key.isprintable()):
        return "a character that no key has"
    return ""


def is_loopback(host: str | None) -> bool:
    """Return True for a host name or address of this machine.

    Example:
        >>> [is_loopback(host) for host in ("localhost", "127.8.0.1", "::1", "example.com")]
        [True, True, True, False]
    """
    name = (host or "").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def proxy_in_use(client: Any, url: str, package: Any) -> str:
    """Return the proxy that a client sends the requests to a URL through, with its variable.

    The text is empty without a proxy, or if the client does not show its transports. The login is
    left out.

    Args:
        client: Client of httpx.
        url: URL of the server.
        package: Package of the client, which has its class `URL`.
    """
    choose = getattr(client, "_transport_for_url", None)
    if choose is None or choose(package.URL(url)) is client._transport:
        return ""
    proxies = getproxies_environment()
    scheme = urlsplit(url).scheme
    variable = scheme if proxies.get(scheme) else "all"
    address = proxies.get(variable)
    if not address:  # given to the client by the user
        return "the proxy of the client"
    return f"the proxy {address.rpartition('@')[2].rpartition('//')[2]} of {variable.upper()}_PROXY"


def tls_context() -> ssl.SSLContext:
    """Return the context of HTTPS without an HTTP package, with the certificates of all variables.

    It raises an OSError if a variable names a file that cannot be read.
    """
    return _tls_context(*map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR", BUNDLE)))


@functools.cache
def _tls_context(*_values: str | None) -> ssl.SSLContext:
    """Return a context, cached by the values of its variables; OpenSSL reads them itself."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    add_bundle(context)
    return context


def add_bundle(context: ssl.SSLContext) -> None:
    """Trust the certificates of `REQUESTS_CA_BUNDLE`, a file or a folder, beside all others.

    It raises an OSError if the variable names a file that cannot be read.
    """
    bundle = os.environ.get(BUNDLE)
    if bundle:
        is_folder = os.path.isdir(bundle)
        context.load_verify_locations(**{"capath" if is_folder else "cafile": bundle})
