"""Images in requests to the server: what the drafter is shown, what stands for others, what is refused."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the server part needs vLLM", exc_type=ImportError)

from asymspec_agents.wire.handshake import PATH, ServerInfo
from tests.engine.tiny_folder import WEATHER
from vllm_asymspec.wire_args import unpack_ids

from .harness import CHAT, Harness, full_ids
from .vision_models import KINDS, vision_tokenizer
from .vision_oracle import picture

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own

KIND = KINDS["idefics3"]
CAPTION = "A picture of noise."


def data_url(seed: int = 0, width: int = 40, height: int = 24, kind: str = "PNG") -> str:
    """A picture's file."""
    file = io.BytesIO()
    picture(seed, width, height).save(file, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def chat(*urls: str, edits: bool = True, **fields: Any) -> dict[str, Any]:
    """A user message with images, each with a caption in its place."""
    parts = [text("Look: "), *map(image, urls), text(" what is it?")]
    captions = [{"message": 0, "part": 1 + at, "text": f"{CAPTION} {at}"} for at in range(len(urls))]
    asymspec = {"edits": captions if edits else [], **fields.pop("asymspec", {})}
    return {"messages": [{"role": "user", "content": parts}], "asymspec": asymspec, "max_tokens": 5, **fields}


def expected(messages: list[dict[str, Any]], urls: list[str], tools: Any = None) -> list[int]:
    """The full view as transformers' own processor makes it."""
    from PIL import Image

    tokenizer = vision_tokenizer()
    prompt = tokenizer.apply_chat_template(
        messages, tools=tools, chat_template=KIND.template, add_generation_prompt=True, tokenize=False
    )
    files = [Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB") for url in urls]
    return list(KIND.processor(tokenizer)(text=[prompt], images=files or None)["input_ids"][0])


def base_ids(call: Any) -> list[int]:
    """What the drafter reads in place of the verifier's prompt."""
    return list(unpack_ids(call.asymspec["base_ids"]))


def test_the_handshake_says_whether_the_drafter_sees(harness: Harness, seeing_harness: Harness) -> None:
    assert not ServerInfo.read(harness.get(PATH).json()).sees_images
    info = ServerInfo.read(seeing_harness.get(PATH).json())
    assert info.sees_images
    assert info.capabilities().sees_images


def test_the_drafter_is_shown_what_the_verifier_reads_captions_of(seeing_harness: Harness) -> None:
    urls = [data_url(1), data_url(2, 64, 64, "JPEG")]
    body = chat(*urls)
    report = seeing_harness.answer(CHAT, body)["asymspec"]
    call = seeing_harness.call
    wanted = expected(body["messages"], urls)
    assert full_ids(call) == wanted
    short = "Look: \n" + f"{CAPTION} 0\n{CAPTION} 1" + "\n what is it?"
    assert list(call.prompt["prompt_token_ids"]) == seeing_harness.ids([{"role": "user", "content": short}])
    assert base_ids(call) == expected([{"role": "user", "content": [text(short)]}], [])
    assert (report["images"], report["fallback"], report["mode"]) == (2, None, "asymspec")
    assert report["drafter_prompt_tokens"] == len(wanted)
    assert call.asymspec["num_images"] == len(call.images) == 2
    tokens = vision_tokenizer().convert_tokens_to_ids(["<image>"])[0]
    for feature in call.images:
        place = feature.mm_position
        shown = wanted[place.offset : place.offset + place.length]
        assert place.is_embed.tolist() == [token == tokens for token in shown]
        assert feature.data["pixel_values"].data.shape[-2:] == (32, 32)
    assert len({feature.identifier for feature in call.images}) == 2


def test_the_same_image_has_the_same_name_wherever_it_stands(seeing_harness: Harness) -> None:
    same, other = data_url(3), data_url(4)
    names = []
    for urls in ((same, other), (other, same), (same,)):
        seeing_harness.answer(CHAT, chat(*urls))
        names.append([feature.identifier for feature in seeing_harness.call.images])
    assert names[0] == names[1][::-1]
    assert names[2] == names[0][:1]


def test_images_of_tool_results_and_in_other_clients_forms(seeing_harness: Harness) -> None:
    url = data_url(5)
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    raw = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": url.split(",")[1]},
    }
    messages = [
        {"role": "user", "content": "Photograph it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [raw]},
    ]
    body = {"messages": messages, "asymspec": {"edits": [{"message": 2, "part": 0, "text": CAPTION}]}}
    report = seeing_harness.answer(CHAT, {**body, "tools": [WEATHER]})["asymspec"]
    assert report["images"] == 1
    ids = full_ids(seeing_harness.call)
    (feature,) = seeing_harness.call.images
    shown = ids.count(vision_tokenizer().convert_tokens_to_ids("<image>"))
    assert shown == feature.mm_position.get_num_embeds() > 0
    assert "weather" in vision_tokenizer().decode(ids)


def test_four_drafts_where_images_are_shown_and_the_request_names_no_number(seeing_harness: Harness) -> None:
    def options() -> Any:
        return seeing_harness.call.asymspec["options"]

    seeing_harness.answer(CHAT, chat(data_url()))
    assert options()["num_draft_tokens"] == 3  # the server's: fewer than four
    seeing_harness.answer(CHAT, chat(data_url(), asymspec={"num_draft_tokens": 1}))
    assert options()["num_draft_tokens"] == 1
    seeing_harness.answer(CHAT, {**chat(), "asymspec": {"edits": [{"message": 0, "part": 0, "text": "?"}]}})
    assert options()["num_draft_tokens"] == 2


def test_the_drafter_reads_both_views_by_its_own_template_without_images_too(seeing_harness: Harness) -> None:
    """An image may come with the next turn; and views that differ in their template alone would not agree."""
    long, short = ([{"role": "user", "content": [text(content)]}] for content in ("x" * 50, "x"))
    body = {"messages": long, "asymspec": {"edits": [{"message": 0, "part": 0, "text": "x"}]}}
    report = seeing_harness.answer(CHAT, body)["asymspec"]
    call = seeing_harness.call
    assert report["images"] == 0
    assert not call.images
    assert full_ids(call) == expected(long, [])
    assert base_ids(call) == expected(short, [])
    assert list(call.prompt["prompt_token_ids"]) == seeing_harness.ids([{"role": "user", "content": "x"}])
    assert list(call.prompt["prompt_token_ids"]) != base_ids(call)


def test_views_with_the_same_content_are_identical(seeing_harness: Harness) -> None:
    messages = [{"role": "user", "content": [text("x" * 50)]}]
    report = seeing_harness.answer(CHAT, {"messages": messages, "asymspec": {"edits": []}})["asymspec"]
    assert (report["mode"], report["fallback"]) == ("strict", "identical_views")


def test_completions_are_read_as_they_are(seeing_harness: Harness) -> None:
    body = {"prompt": [1, 2, 3], "asymspec": {"prompt": [2, 3]}, "max_tokens": 3}
    seeing_harness.answer("/v1/completions", body)
    assert full_ids(seeing_harness.call) == [1, 2, 3]
    assert "base_ids" not in seeing_harness.call.asymspec


def test_texts_stand_for_images_where_the_drafter_sees_none(harness: Harness) -> None:
    report = harness.answer(CHAT, chat(data_url()))["asymspec"]
    assert (report["fallback"], report["mode"], report["images"]) == (
        "images_as_text, identical_views",
        "strict",
        0,
    )
    content = f"Look: \n{CAPTION} 0\n what is it?"
    assert full_ids(harness.call) == harness.ids([{"role": "user", "content": content}])
    short = {"messages": [{"role": "user", "content": "What is it?"}]}
    body = {**chat(data_url()), "asymspec": short}
    assert harness.answer(CHAT, body)["asymspec"]["fallback"] == "images_without_text"


def test_an_image_at_a_url_is_told_by_its_text(seeing_harness: Harness) -> None:
    report = seeing_harness.answer(CHAT, chat("https://example.com/a.png", data_url()))["asymspec"]
    assert (report["images"], report["fallback"]) == (1, "images_as_text")


BROKEN = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n nothing").decode()
CUT = data_url(6, 60, 60)
CUT = CUT[: len(CUT) // 8 * 4]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (chat("https://example.com/a.png", edits=False), "nobody sees this image"),
        (chat("file:///etc/hostname", edits=False), "URLs are not fetched"),
        (chat("data:image/png;base64,@@@@"), "base64"),
        (chat(BROKEN), "content[1]"),
        (chat(CUT), "broken or cut short"),
        (chat("data:text/plain;base64,aGVsbG8="), "no image of a format"),
        (chat(data_url(7, 200, 100)), "max_image_pixels=10,000"),
        (chat(*[data_url(i) for i in range(3)]), "max_images=2"),
        (chat(data_url(), messages=None) | {"messages": []}, "messages"),
    ],
    ids=["url", "file", "base64", "broken", "cut", "text", "pixels", "many", "empty"],
)
def test_what_cannot_be_shown(seeing_harness: Harness, body: dict[str, Any], says: str) -> None:
    assert says in seeing_harness.error(CHAT, body)["message"]


def test_an_image_that_nobody_sees_and_no_text_replaces(harness: Harness) -> None:
    error = harness.error(CHAT, chat(data_url(), edits=False))
    assert "messages[0].content[1]: nobody sees this image (no model here reads images)" in error["message"]


def test_a_drafter_whose_template_leaves_out_tools_reads_the_verifiers(
    seeing_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = seeing_harness.server.app.state
    blunt = replace(state.asymspec, seen_views=replace(state.asymspec.seen_views, reads_verifiers=True))
    monkeypatch.setitem(state._state, "asymspec", blunt)
    url = data_url(8)
    for tools in ([WEATHER], None):  # in calls without tools too: their turns have to begin alike
        body = chat(url, **({"tools": tools} if tools else {}))
        seeing_harness.answer(CHAT, body)
        wanted = expected(body["messages"], [url], tools=tools)
        decoded, told = (vision_tokenizer().decode(ids) for ids in (wanted, full_ids(seeing_harness.call)))
        assert told.count("<image>") == decoded.count("<image>") > 0
        assert told.replace("\n", "") == decoded.replace("\n", "")  # vLLM joins the parts of a text by lines
        assert "base_ids" not in seeing_harness.call.asymspec  # the verifier's own prompt


def test_the_mark_of_images_in_somebodys_text(seeing_harness: Harness) -> None:
    body = chat(data_url())
    body["messages"][0]["content"].append(text("<image>"))
    assert "marks images" in seeing_harness.error(CHAT, body)["message"]


def test_streams_report_images(seeing_harness: Harness) -> None:
    response = seeing_harness.post(CHAT, chat(data_url(), stream=True))
    assert '"images":1' in response.text.replace(" ", "")


def test_a_plain_request_with_an_image_is_vllms_to_refuse(seeing_harness: Harness) -> None:
    body = chat(data_url())
    del body["asymspec"]
    assert "multimodal" in seeing_harness.error(CHAT, body)["message"]
