"""The tests stay on this machine: only loopback and Unix sockets connect, hub clients are offline."""

from __future__ import annotations

import os
import socket

import pytest
import pytest_socket


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_other_machines_are_out_of_reach() -> None:
    with socket.socket() as client, pytest.raises(pytest_socket.SocketConnectBlockedError):
        client.connect(("192.0.2.1", 80))  # reserved for documentation (RFC 5737)


def test_this_machine_is_in_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())


def test_hub_clients_are_offline() -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
