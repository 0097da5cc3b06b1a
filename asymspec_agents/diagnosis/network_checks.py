"""The checks of a server's address and of the way there: proxy, name, port, encryption."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx

from ..errors import ConfigurationError
from .finding import Check, Finding
from .target import CONNECT_TIMEOUT_S, Target

__all__ = ["NETWORK_CHECKS"]


def _address(server: Target) -> Iterator[Finding]:
    """The address and the key as given, before anything is sent."""
    try:
        url = server.url
    except ConfigurationError as error:
        is_key = str(error).startswith("api_key")
        fix = "asymspec doctor http://127.0.0.1:8000"
        if server.given_url.strip() and "://" not in server.given_url:
            fix = f"asymspec doctor http://{server.given_url.partition('?')[0]}"
        yield Finding("address", "FAIL", str(error), "give the key as it is, in one line" if is_key else fix)
        return
    if not 0 < server.port < 65_536:
        fix = "ports go from 1 to 65535; asymspec serve prints its own when ready"
        yield Finding("address", "FAIL", f"{url} has no such port", fix)
        return
    path = server.address.path.rstrip("/")
    if server.address.query or path.endswith(("completions", "/models")):
        root = f"{server.address.scheme}://{server.address.netloc.decode()}"
        text = f"{url} is the address of one endpoint, not of a server"
        yield Finding("address", "FAIL", text, f"asymspec doctor {root}")
    else:
        yield Finding("address", "ok", f"{url}{f'; the API is expected under {path}/v1' if path else ''}")


def _network(server: Target) -> Iterator[Finding]:
    """Whether a connection can be opened, step by step: proxy, name, port, TLS."""
    host, proxy = server.address.host, server.proxy
    if proxy is not None:
        if server.is_loopback:
            text = f"the proxy settings send requests to this machine through {proxy}"
            yield Finding("proxy", "warn", text, f"export NO_PROXY={host}")
        else:
            text = f"requests go through the proxy {proxy}; if that is not wanted: export NO_PROXY={host}"
            yield Finding("proxy", "info", text)
        return  # what can be reached from here directly says nothing then
    problem = _connection_problem(server)
    if problem is None:
        is_encrypted = server.address.scheme == "https"
        text = f"{host}:{server.port} accepts connections{', encrypted' if is_encrypted else ''}"
        yield Finding("network", "ok", text)
    else:
        yield problem


def _connection_problem(server: Target) -> Finding | None:
    host, port = server.address.host, server.port
    timeout_s = min(CONNECT_TIMEOUT_S, server.timeout_s)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            if server.address.scheme == "https":
                # The client's own settings: its certificates, SSL_CERT_FILE and SSL_CERT_DIR.
                with httpx.create_ssl_context().wrap_socket(plain, server_hostname=host):
                    pass
        return None
    except (socket.gaierror, UnicodeError) as error:
        text, fix = (
            f"the name {host} is not known here: {error}",
            "check its spelling, or give the IP address",
        )
    except ConnectionRefusedError:
        text, fix = f"nothing listens at {host}:{port}", _start(server)
    except ssl.SSLCertVerificationError as error:
        text = f"the certificate is not trusted: {error.verify_message}"
        fix = "export SSL_CERT_FILE=/the/authority's/certificate.pem"
    except ssl.SSLError as error:
        text = f"no encrypted connection: {error.reason or error}"
        fix = f"if the server speaks plain HTTP: asymspec doctor http://{host}:{port}"
    except TimeoutError:
        text = f"{host}:{port} did not answer within {timeout_s:g} s"
        fix = "check host and port, and whether a firewall lets them through"
    except OSError as error:
        text = f"{host}:{port} can't be reached: {error.strerror or error}"
        fix = "check the address and this machine's network"
    return Finding("network", "FAIL", text, fix)


def _start(server: Target) -> str:
    if server.is_loopback:
        return f"asymspec serve --port {server.port} (or give the address where it runs)"
    return (
        f"on {server.address.host}: asymspec serve --host 0.0.0.0 --port {server.port} --api-key KEY "
        "(by default it listens for its own machine only)"
    )


NETWORK_CHECKS: tuple[Check[Target], ...] = (
    Check("address", _address),
    Check("network", _network, needs=("address",)),
)
