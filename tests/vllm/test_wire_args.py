"""What travels with a request to the engine."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecRequest
from vllm_asymspec.wire_args import EXTRA_ARG, AsymSpecArgs, pack_ids, unpack_ids

token_ids = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=50)


@given(ids=token_ids, beta=st.floats(0, 4), salt=st.one_of(st.none(), st.text()), num=st.integers(0, 9))
def test_arguments_arrive_as_they_were_sent(ids: list[int], beta: float, salt: str | None, num: int) -> None:
    args = AsymSpecArgs(pack_ids(ids), AsymSpecOptions.of(beta=beta, mode="scaled"), salt, num)
    received = AsymSpecArgs.of({EXTRA_ARG: args.pack(), "other": 1})
    assert received is not None
    assert (received.full_ids, received.options, received.salt) == (args.full_ids, args.options, salt)
    assert received.num_images == num
    assert list(unpack_ids(received.full_ids)) == ids
    assert received.num_full_tokens == len(ids)


def test_ids_are_little_endian_int32() -> None:
    assert pack_ids([1, 258]) == b"\x01\0\0\0\x02\x01\0\0"


def test_only_what_was_given_of_the_options_travels_in_plain_values() -> None:
    request = AsymSpecRequest.model_validate({"edits": [], "gamma": 0.25, "bonus": "none"})
    packed = AsymSpecArgs(pack_ids([1]), request).pack()
    assert packed["options"] == {"gamma": 0.25, "bonus": "none"}
    json.dumps({**packed, "full_ids": ""})


def test_a_list_of_numbers_will_do_for_the_full_view() -> None:
    received = AsymSpecArgs.of({EXTRA_ARG: {"version": 1, "full_ids": [5, 6]}})
    assert received is not None
    assert list(unpack_ids(received.full_ids)) == [5, 6]


@pytest.mark.parametrize("extra_args", [None, {}, {"other": 1}, {EXTRA_ARG: None}])
def test_a_plain_request_has_none(extra_args: dict[str, object] | None) -> None:
    assert AsymSpecArgs.of(extra_args) is None


@pytest.mark.parametrize(
    ("packed", "told"),
    [
        ("text", "not an object"),
        ({"version": 1}, "not an object with the fields"),
        ({"version": 1, "full_ids": b"\0" * 4, "extra": 1}, "not an object with the fields"),
        ({"full_ids": b"\0" * 4}, "version=None"),
        ({"version": 2, "full_ids": b"\0" * 4}, "version=2"),
        ({"version": 1, "full_ids": b""}, "empty"),
        ({"version": 1, "full_ids": []}, "empty"),
        ({"version": 1, "full_ids": b"\0" * 5}, "5 bytes"),
        ({"version": 1, "full_ids": b"\xff" * 4}, "negative"),
        ({"version": 1, "full_ids": [-1]}, "negative"),
        ({"version": 1, "full_ids": [2**31]}, "not all are token ids"),
        ({"version": 1, "full_ids": [1.5]}, "not all are token ids"),
        ({"version": 1, "full_ids": "1 2"}, "neither int32 bytes nor"),
        ({"version": 1, "full_ids": [1], "options": [1]}, "options"),
        ({"version": 1, "full_ids": [1], "options": {1: 2}}, "options"),
        ({"version": 1, "full_ids": [1], "options": {"beta": 9}}, "beta"),
        ({"version": 1, "full_ids": [1], "options": {"unknown": 9}}, "unknown"),
        ({"version": 1, "full_ids": [1], "salt": 3}, "salt"),
        ({"version": 1, "full_ids": [1], "num_images": True}, "num_images=True"),
        ({"version": 1, "full_ids": [1], "num_images": -1}, "num_images=-1"),
    ],
)
def test_malformed_arguments_are_named(packed: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        AsymSpecArgs.of({EXTRA_ARG: packed})
