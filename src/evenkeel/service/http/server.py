"""Serving a service on a socket."""

import gc
import socket
import sys
from contextlib import suppress
from pathlib import Path

import uvicorn

from evenkeel.errors import SettingsError
from evenkeel.service.http.app import make_app
from evenkeel.service.http.connections import TOTAL, Connection, Connections
from evenkeel.service.http.guard import is_loopback
from evenkeel.service.http.logs import Logged, logging_to_stderr
from evenkeel.service.service import Service
from evenkeel.service.store.keys import Keyring, read_keys

OWN_FILES = 200  # that the service may have open besides connections
SWITCH = 0.001  # seconds after which a computing thread yields to another, so that requests do not wait for it


def make_keyring(path: Path, host: str, *, require_keys: bool) -> Keyring:
    """Return the keys of a service; raise SettingsError if it has none and other machines can reach the address.

    `require_keys`: nobody may do anything without a key, on any address, even if there are no keys yet.
    """
    if not read_keys(path) and not is_loopback(host) and not require_keys:
        raise SettingsError(
            f"The address {host} can be reached from other machines, and there are no keys: anyone could teach this "
            "model. Start it on 127.0.0.1 or with --require-keys to create its folder, then add a key: `evenkeel keys "
            "add MODEL_DIR NAME --scope learn`."
        )
    return Keyring(path, open_without=is_loopback(host) and not require_keys)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise SettingsError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=512)
    except OSError as error:
        raise SettingsError(f"Cannot listen on {host}, port {port}: {error.strerror or error}.") from None


def make_server(service: Service, keyring: Keyring) -> uvicorn.Server:
    """Return a server that runs a service from its start to its stop, within the limits of its config."""
    limits = service.config.limits
    settings = {"seconds": limits.seconds, "body": limits.body, "open_connections": _connections(limits.connections)}
    config = uvicorn.Config(
        make_app(service, keyring),
        http=type("Protocol", (Connection,), settings),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(limits.seconds) or 1,
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)


def run(service: Service, listening: socket.socket, keyring: Keyring, log: Logged = "access") -> None:
    """Serve requests until a signal stops the process."""
    sys.setswitchinterval(SWITCH)
    server = make_server(service, keyring)
    gc.freeze()  # what is loaded by now stays; scanning it again and again would delay requests
    with logging_to_stderr(log), suppress(KeyboardInterrupt):  # uvicorn raises it again after its shutdown
        server.run(sockets=[listening])


def _connections(per_address: int) -> Connections:
    """Return the connections of a server: as many as there may be open files, but for those of the service itself."""
    if sys.platform == "win32":
        return Connections(per_address)
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = min(hard, TOTAL + OWN_FILES) if hard != resource.RLIM_INFINITY else TOTAL + OWN_FILES
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return Connections(per_address, max(10, min(TOTAL, max(soft, files) - OWN_FILES)))
