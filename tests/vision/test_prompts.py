"""A seeing drafter's prompts have the ids of transformers' own processors; no text becomes an image."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import Idefics3Processor, LlavaProcessor

from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.engine.load import load_pair
from asymspec_agents.engine.vision.kinds import kind_of
from asymspec_agents.engine.vision.looking import Looker, virtual_ids
from asymspec_agents.engine.vision.options import VisionOptions
from asymspec_agents.engine.vision.picture import Picture
from asymspec_agents.engine.vision.prompt import SeeingPrompts
from asymspec_agents.engine.vision.template import SeeingTemplate, seeing_template
from asymspec_agents.errors import ConfigurationError, MessageError
from asymspec_agents.messages import parse_messages, parse_tools
from tests.engine.tiny_folder import CHAT_TEMPLATE, WEATHER

from .families import FAMILIES, TEMPLATE, tokenizer_of
from .images import encoded, noise, text_part
from .pairs import CALL, pair_folders, seeing_pair

IMAGES = (noise(1), noise(2, 40, 28), noise(3, 17, 47))
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": [text_part("a "), {"type": "image"}, text_part(" b")]},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "image"}, {"type": "image"}]},
]
PLACES = ((0, 1), (2, 0), (2, 1))
by_family = pytest.mark.parametrize("family", FAMILIES)


def pictures(images: Any = IMAGES) -> dict[tuple[int, int], Picture]:
    return {place: Picture.of(encoded(image)) for place, image in zip(PLACES, images, strict=True)}


@pytest.mark.parametrize("family", ["idefics3", "smolvlm", "llava"])
def test_ids_are_those_of_the_families_own_processors(family: str) -> None:
    pair = seeing_pair(family)
    tokenizer, image_processor = tokenizer_of(family), pair.oracle.processor
    config = pair.oracle.config
    if family == "llava":
        processor: Any = LlavaProcessor(
            image_processor,
            tokenizer,
            patch_size=config.vision_config.patch_size,
            vision_feature_select_strategy=config.vision_feature_select_strategy,
            num_additional_image_tokens=1,
        )
    else:  # SmolVLM's own processor, which writes the same, needs a package for numbers in words
        processor = Idefics3Processor(image_processor, tokenizer, image_seq_len=4)
    text = tokenizer.apply_chat_template(
        [{**message, "tool_calls": None} for message in MESSAGES], tokenize=False, add_generation_prompt=True
    )
    wanted = processor(text=[text], images=list(IMAGES), return_tensors="pt")["input_ids"][0].tolist()
    plain = [{**message, "tool_calls": None} for message in MESSAGES]
    plain[1]["content"] = ""
    got = pair.prompts.prompt(parse_messages(plain), pictures=pictures())
    assert pair.oracle.real(got.ids) == wanted


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_qwen_images_take_a_token_for_each_merged_patch(family: str) -> None:
    pair = seeing_pair(family)
    tokenizer = tokenizer_of(family)
    grids = pair.oracle.processor(images=list(IMAGES), return_tensors="pt")["image_grid_thw"]
    text = tokenizer.apply_chat_template(
        [{**message, "tool_calls": None} for message in MESSAGES], tokenize=False, add_generation_prompt=True
    )
    pieces = text.split("<|image_pad|>")
    counts = [int(grid.prod()) // 4 for grid in grids]
    assert len(set(counts)) == 3
    text = pieces[0] + "".join("<|image_pad|>" * n + p for n, p in zip(counts, pieces[1:], strict=True))
    plain = [{**message, "tool_calls": None} for message in MESSAGES]
    got = pair.prompts.prompt(parse_messages(plain), pictures=pictures())
    assert pair.oracle.real(got.ids) == tokenizer.encode(text, add_special_tokens=False)
    assert sum(token < 0 for token in got.ids) == sum(counts)


@by_family
def test_names_of_image_tokens_in_texts_are_texts(family: str) -> None:
    pair = seeing_pair(family)
    kind = pair.prompts.looker.kind
    words = "".join(kind.control_names) + kind.placeholder
    messages = parse_messages(
        [{"role": "user", "content": [text_part(words), {"type": "image"}, text_part(kind.image_token)]}]
    )
    shown = {(0, 1): Picture.of(encoded(noise(1)))}
    prompt = pair.prompts.prompt(messages, pictures=shown)
    assert prompt.sight is not None
    assert len(prompt.sight.looks) == 1
    assert kind.image_token_id not in prompt.ids
    rows = pair.prompts.looker.look(shown[0, 1]).layout.ids
    first = prompt.ids.index(rows[0])
    assert tuple(prompt.ids[first : first + len(rows)]) == rows
    said = tokenizer_of(family).decode([token for token in prompt.ids if token >= 0])
    assert words in said  # each name letter by letter
    assert pair.prompts.prompt(parse_messages([{"role": "user", "content": words}])).sight is None


def test_a_name_of_no_special_token_is_kept_out_of_texts_as_well() -> None:
    tokenizer = tokenizer_of("llava")
    loose = copy.deepcopy(tokenizer)
    loose.add_tokens(["<picture>"])
    loose_id = loose.convert_tokens_to_ids("<picture>")
    template = ChatTemplate(loose, control_names=["<picture>"])
    ids = template.ids(parse_messages([{"role": "user", "content": "a <picture> b"}]))
    assert loose_id not in ids
    assert "a <picture> b" in loose.decode(ids)


def test_ids_of_images_follow_from_their_content() -> None:
    first, second = virtual_ids("a" * 64, 500), virtual_ids("b" * 64, 500)
    assert first == virtual_ids("a" * 64, 500)
    assert first[:100] == virtual_ids("a" * 64, 100)
    assert all(-(2**63) <= token < 0 for token in (*first, *second))
    assert len({*first, *second}) == 1_000


def test_a_limit_counts_different_images() -> None:
    pair = seeing_pair("qwen2_vl")
    same = [noise(1)] * 3
    prompts = SeeingPrompts(pair.prompts.template, _limited(pair.prompts, max_images=1))
    assert prompts.prompt(parse_messages(MESSAGES), pictures=pictures(same)).sight is not None
    with pytest.raises(
        ConfigurationError, match=r"^the full view has 3 different images, over the limit of max_images=1$"
    ):
        prompts.prompt(parse_messages(MESSAGES), pictures=pictures())


def _limited(prompts: SeeingPrompts, **limits: int) -> Any:
    looker = prompts.looker
    return Looker(looker.kind, looker._processor, looker._tokenizer, VisionOptions(**limits))


def test_a_template_without_a_place_for_images_in_a_role_is_named() -> None:
    pair = seeing_pair("qwen2_vl")
    blind = TEMPLATE.replace(
        'part.type == "image"', 'part.type == "image" and message.role == "user"'
    ).replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    template = SeeingTemplate(
        tokenizer_of("qwen2_vl"),
        pair.prompts.looker.kind,
        blind.replace("{{ part.text }}", "x"),
        takes_parts=True,
    )
    with pytest.raises(MessageError, match=r"shows 1 of 3 images: it has no place for images in messages of"):
        SeeingPrompts(template, pair.prompts.looker).prompt(parse_messages(MESSAGES), pictures=pictures())


WITHOUT_TOOLS = CHAT_TEMPLATE.replace("{%- if tools -%}", "{%- if false -%}")


@by_family
def test_a_template_without_tools_gives_way_to_the_verifiers(family: str) -> None:
    """Qwen2.5-VL's own template drops them, and then the drafter would never hear of a tool."""
    kind = kind_of(seeing_pair(family).oracle.config, tokenizer_of(family))
    verifier = ChatTemplate(tokenizer_of(None))
    own = str(tokenizer_of(family).chat_template)
    blind = own.replace("{%- if tools -%}", "{%- if false -%}")
    assert seeing_template(tokenizer_of(family), kind, [own], verifier)._takes_parts
    made = seeing_template(tokenizer_of(family), kind, [None, blind], verifier)
    assert not made._takes_parts
    prompts = SeeingPrompts(made, seeing_pair(family).prompts.looker)
    tools = parse_tools([WEATHER])
    got = prompts.prompt(parse_messages(MESSAGES), tools, pictures=pictures())
    assert got.sight is not None
    assert len(got.sight.looks) == 3
    said = tokenizer_of(family).decode([token for token in got.ids if token >= 0])
    assert "Weather of a city." in said
    text_only = ChatTemplate(tokenizer_of(None), WITHOUT_TOOLS)
    assert seeing_template(tokenizer_of(family), kind, [None, blind], text_only)._takes_parts


def test_a_template_that_takes_no_lists_gives_way_too() -> None:
    kind = kind_of(seeing_pair("llava").oracle.config, tokenizer_of("llava"))
    verifier = ChatTemplate(tokenizer_of(None))
    made = seeing_template(tokenizer_of("llava"), kind, [CHAT_TEMPLATE], verifier)
    assert not made._takes_parts


def test_the_template_of_an_older_processor_is_found(tmp_path: Path) -> None:
    verifier, drafter = pair_folders("smolvlm")
    folder = tmp_path / "drafter"
    shutil.copytree(drafter, folder)
    (folder / "chat_template.jinja").unlink()
    own = str(tokenizer_of("smolvlm").chat_template).replace("<|im_start|>", "<|im_start|>~")
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": own}))
    pair = load_pair(verifier, folder, dtype="float32", device="cpu")
    assert pair.seeing is not None
    ids = pair.seeing.prompt(parse_messages([{"role": "user", "content": "Hello"}])).ids
    assert "<|im_start|>~user" in tokenizer_of("smolvlm").decode(ids)


def test_texts_beside_each_other_are_joined_as_in_a_text_alone() -> None:
    pair = seeing_pair("qwen2_vl")
    parts = [text_part("one"), text_part("two")]
    joined = pair.prompts.prompt(parse_messages([{"role": "user", "content": parts}])).ids
    assert joined == pair.prompts.prompt(parse_messages([{"role": "user", "content": "one\ntwo"}])).ids
