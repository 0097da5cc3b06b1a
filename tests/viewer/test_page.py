"""The trace page in a browser: a real run is read, focused, filtered, searched; harm is only text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.trace import JSONLRecorder
from asymspec_agents.trace.comparing import compare
from asymspec_agents.trace.story import Story, read_story
from asymspec_agents.trace.viewer import comparison_data, render_page, story_data

from .browser import Page, chromium, opened
from .traces import HOSTILE, record_hostile, record_run


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "run.jsonl"
    record_run(path)
    return path


@pytest.fixture(scope="module")
def story(run_path: Path) -> Story:
    return read_story(run_path)


@pytest.fixture
def page(browser: Any, story: Story, tmp_path: Path) -> Iterator[Page]:
    with opened(browser, render_page(story_data(story), story.title), tmp_path) as shown:
        yield shown


def test_the_bars_tell_each_calls_tokens_and_times(page: Page, story: Story) -> None:
    rows = page.tab.locator("#list [role=option]")
    assert rows.count() == 3
    for number, call in enumerate(story.calls):
        label = rows.nth(number).get_attribute("aria-label") or ""
        computed = call.computed_tokens
        assert computed is not None
        assert call.request is not None
        assert f"full view {call.full_tokens:,} tokens: {computed.drafter:,} computed" in label
        assert f"compressed view {call.compressed_tokens:,} tokens: {computed.verifier:,} computed" in label
        assert f"{call.request.cached_tokens.verifier:,} reused" in label
        assert all(f"{stage} " in label for stage in ("compress", "queue", "prefill", "decode"))
        shown = rows.nth(number).inner_text().split("\n")
        assert f"{call.full_tokens:,}" in shown
        assert f"{call.compressed_tokens:,}" in shown
    widths = page.tab.eval_on_selector_all(
        "#row-3 .segments", "nodes => nodes.map(node => parseFloat(node.style.width))"
    )
    third = story.calls[2]
    assert widths[1] / widths[0] == pytest.approx(
        (third.compressed_tokens or 0) / (third.full_tokens or 1), rel=0.01
    )
    assert page.text("#totals").count("3") >= 1


def test_a_fused_token_says_why_it_stands_there(page: Page, story: Story) -> None:
    page.select(2)
    positions = story.calls[1].positions()
    at = next(index for index, position in enumerate(positions) if position.origin == "fused")
    position = positions[at]
    page.tab.locator(f'.token[data-at="{at}"]').focus()
    panel = page.text(".panel")
    assert f"Token {at + 1}:" in panel
    assert "fused" in panel
    assert position.p_t is not None
    assert position.gamma_eff is not None
    for number in (position.p_t, position.p_b, position.p_a, position.divergence, position.gamma_eff):
        assert number is not None
        assert (f"{number:.3f}" if number >= 0.001 else "e-") in panel
    assert "refused" in panel
    assert page.tab.locator(".panel table.best tr").count() == 15
    assert page.tab.locator(f'.token[data-at="{at}"]').evaluate("node => node.classList.contains('fused')")
    page.tab.locator('.token[data-at="0"]').hover()
    assert "Token 1:" in page.text(".panel")


def test_tokens_are_walked_by_keyboard(page: Page) -> None:
    page.select(2)
    page.tab.locator('.token[data-at="0"]').focus()
    page.tab.keyboard.press("ArrowRight")
    page.tab.keyboard.press("ArrowRight")
    assert "Token 3:" in page.text(".panel")
    focused = "document.activeElement.dataset.at"
    assert page.tab.evaluate(focused) == "2"
    page.tab.keyboard.press("End")
    assert page.tab.evaluate(focused) == "23"
    page.tab.keyboard.press("Home")
    assert page.tab.evaluate(focused) == "0"
    assert page.tab.locator('.token[tabindex="0"]').count() == 1  # one stop of the Tab key


def test_calls_are_chosen_by_keyboard(page: Page) -> None:
    page.tab.locator("#list").focus()
    page.tab.keyboard.press("End")
    assert page.text("h2") == "Call 3"
    assert page.tab.locator("#list").get_attribute("aria-activedescendant") == "row-3"
    page.tab.keyboard.press("ArrowUp")
    assert page.text("h2") == "Call 2"
    assert page.tab.locator('#list [aria-selected="true"]').count() == 1


def test_the_filter_leaves_what_the_full_view_changed(page: Page, story: Story) -> None:
    page.tab.locator("#changed").check()
    shown = page.tab.locator("#list [role=option]").count()
    changed = [call for call in story.calls if call.num_changed]
    assert shown == len(changed) == 2  # the first call's views are identical
    assert page.text("h2") == f"Call {changed[0].number}"
    positions = changed[0].positions()
    expected = [str(at) for at, position in enumerate(positions) if position.is_argmax is False]
    assert (
        page.tab.eval_on_selector_all(".token.changed[data-at]", "all => all.map(t => t.dataset.at)")
        == expected
    )
    page.tab.locator(f'.token[data-at="{expected[0]}"]').focus()
    page.tab.keyboard.press("ArrowRight")
    assert page.tab.evaluate("document.activeElement.dataset.at") == expected[1]
    assert "2 calls" in page.text("#live")
    page.tab.locator("#changed").uncheck()
    assert page.tab.locator("#list [role=option]").count() == 3


def test_search_finds_texts_of_both_views_and_opens_them(page: Page) -> None:
    page.tab.keyboard.press("/")
    page.tab.keyboard.type("disk full")
    page.tab.keyboard.press("Enter")
    assert page.text("#hits").startswith("1 of ")
    marked = "[...CSS.highlights.get('search')].map(range => range.toString())"
    assert "disk full" in page.tab.evaluate(marked)
    page.tab.locator("#next").click()
    assert page.text("#hits").startswith("2 of ")
    page.tab.locator("#query").fill("nothing like it")
    page.tab.keyboard.press("Enter")
    assert page.text("#hits") == "nothing found"


def test_both_views_stand_side_by_side_with_calls_and_results_paired(page: Page) -> None:
    page.select(3)
    page.tab.locator("#h-views").scroll_into_view_if_needed()
    result = page.tab.locator(".message", has_text="result of").first
    result.scroll_into_view_if_needed()
    assert "weather" in result.inner_text()
    assert "compressed" in result.inner_text()
    left, right = result.locator(".side").all()
    for button in left.locator("button.more").all():
        button.click()
    assert "request 3 served" in left.inner_text()
    assert left.locator("del").count()
    assert right.locator("ins").count()
    target = result.locator("h5 a").get_attribute("href")
    caller = page.tab.locator(f".message{target}")
    assert "calls weather" in caller.inner_text()
    assert "Rome 0" in caller.inner_text()


def test_the_theme_is_the_systems_until_it_is_chosen(browser: Any, story: Story, tmp_path: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    html = render_page(story_data(story), story.title)
    seen: dict[str, str] = {}
    for scheme in ("light", "dark"):
        with opened(browser, html, tmp_path, color_scheme=scheme) as shown:
            seen[scheme] = shown.tab.evaluate(background)
            for theme in ("light", "dark"):
                shown.tab.locator("#theme").click()
                assert shown.text("#theme") == f"Theme: {theme}"
                seen[f"{scheme}, {theme}"] = shown.tab.evaluate(background)
    assert seen["light"] == seen["light, light"] == seen["dark, light"]
    assert seen["dark"] == seen["light, dark"] == seen["dark, dark"]
    assert seen["light"] != seen["dark"]


def test_a_comparison_shows_where_answers_part(browser: Any, story: Story, tmp_path: Path) -> None:
    record_run(tmp_path / "floor.jsonl", arm="floor")
    floor = read_story(tmp_path / "floor.jsonl")
    pairs = compare(story, floor)
    assert [pair.is_same for pair in pairs] == [True, False, False]  # the first is decoded losslessly
    with opened(browser, render_page(comparison_data(story, floor, pairs), "both"), tmp_path) as shown:
        assert shown.tab.locator("#list [role=option]").count() == 3
        assert "same answer" in shown.text("h2")
        shown.select(2)
        parting = (pairs[1].common_tokens or 0) + 1
        assert f"parts at token {parting}" in shown.text("h2")
        marked = shown.tab.locator(".token.parts")
        assert [mark.get_attribute("data-at") for mark in marked.all()] == [str(parting - 1)] * 2
        assert "asymspec" in shown.text(".comparison")
        assert "floor" in shown.text(".comparison")
        shown.tab.locator("#changed").check()
        shown.tab.locator("#query").fill(story.calls[1].request_id)
        shown.tab.keyboard.press("Enter")
        assert shown.text("#hits") == "1 of 1"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_a_trace_holds_is_never_more_than_text(browser: Any, tmp_path: Path, theme: str) -> None:
    path = tmp_path / "hostile.jsonl"
    record_hostile(path)
    hostile = read_story(path)
    assert len(hostile.notes) == 5
    with opened(
        browser, render_page(story_data(hostile), "<script>alert(0)</script>"), tmp_path, color_scheme=theme
    ) as shown:
        assert shown.tab.locator("#list [role=option]").count() == len(HOSTILE)
        assert "5 lines of the trace could not be read" in shown.text("#notes")
        for number in range(1, len(HOSTILE) + 1):
            shown.select(number)
            for details in shown.tab.locator("details.part > summary").all():
                details.click()
            for token in shown.tab.locator(".token[data-at]").all():
                token.focus()
            for button in shown.tab.locator(".message button.more").all()[:3]:
                button.click()
        body = shown.tab.locator("body").inner_text()
        assert "__proto__" in body
        assert "\u202e" not in shown.tab.content()
        shown.tab.locator("#query").fill("alert(1)")
        shown.tab.keyboard.press("Enter")
        assert shown.text("#hits").startswith("1 of ")
        shown.select(1)
        assert "<script>alert(1)</script>" in shown.tab.locator("main").inner_text()
        assert shown.tab.locator("img").count() == 0
        assert shown.tab.title().startswith("<script>alert(0)</script>")


def test_without_contents_there_are_numbers_and_no_texts(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "bare.jsonl"
    record_run(path, content=False)
    bare = read_story(path)
    html = render_page(story_data(bare), bare.title)
    assert "disk" not in json.dumps(story_data(bare))
    with opened(browser, html, tmp_path) as shown:
        shown.select(2)
        assert shown.tab.locator(".token[data-at]").count() == len(bare.calls[1].positions())
        shown.tab.locator(".token.fused[data-at]").first.focus()
        assert "γ_eff" in shown.text(".panel")
        assert "not recorded" in shown.text("main")
    record_run(path, content=False, level="summary")
    with opened(browser, render_page(story_data(read_story(path)), "x"), tmp_path) as shown:
        shown.select(5)
        assert 'level="detail"' in shown.text("main")
        assert "Divergence of" in shown.text(".stripbox")
        assert "mark on top" not in shown.text(".stripbox")  # nobody knows what was changed
        assert shown.tab.locator("canvas.strip").count() == 1


def test_ten_thousand_calls_are_a_handful_of_elements(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        for number in range(10_000):
            event = {"event": "request", "timestamp_s": 1.0, "request_id": f"r{number}", "arm": "asymspec"}
            file.write(json.dumps(event) + "\n")
    with opened(browser, render_page(story_data(read_story(path)), "long"), tmp_path) as shown:
        assert shown.tab.locator("#list .row").count() < 60
        shown.tab.locator("#list").focus()
        shown.tab.keyboard.press("End")
        assert shown.text("h2") == "Call 10000"
        assert shown.tab.locator("#row-10000").is_visible()
        assert shown.tab.locator("#row-10000").get_attribute("aria-setsize") == "10000"
        assert shown.tab.locator("#list .row").count() < 60


def test_a_narrow_page_does_not_scroll_sideways(browser: Any, story: Story, tmp_path: Path) -> None:
    with opened(browser, render_page(story_data(story), story.title), tmp_path) as shown:
        for width in (380, 320):  # 320 is 1280 at a zoom of 400%
            shown.tab.set_viewport_size({"width": width, "height": 700})
            shown.select(3)
            shown.tab.locator(".token[data-at]").first.focus()
            assert shown.tab.evaluate("document.documentElement.scrollWidth") <= width


def test_text_that_cannot_be_seen_is_shown_by_its_code_points(browser: Any, tmp_path: Path) -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey") + "\u200b\u2060\u00ad\U000e0101"
    seen = "👩\u200d👧 نامه\u200cای ❤\ufe0f"  # joined, as they are written
    path = tmp_path / "hidden.jsonl"
    with JSONLRecorder(path, captures_content=True, level="detail") as recorder:
        recorder.record("request", request_id="r")
        recorder.record("response", request_id="r", num_tokens=1, text=f"ok{hidden} {seen}")
    story = read_story(path)
    with opened(browser, render_page(story_data(story), story.title), tmp_path) as shown:
        body = shown.tab.locator("main").inner_text()
    for name in ("E006F", "E0062", "E0065", "E0079", "200B", "2060", "00AD", "E0101"):
        assert f"[U+{name}]" in body
    assert seen in body


def test_a_drawn_token_is_not_one_the_full_view_changed(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "drawn.jsonl"
    with JSONLRecorder(path, captures_content=True, level="detail") as recorder:
        recorder.record("request", request_id="r", arm="ceiling")
        position = {"origin": "plain", "is_argmax": False, "text": "drawn", "argmax": "likeliest"}
        counts = {"num_drafted": 0, "num_accepted": 0, "num_bonus": 1}
        recorder.record("block", request_id="r", index=0, positions=[position], **counts)
    story = read_story(path)
    with opened(browser, render_page(story_data(story), story.title), tmp_path) as shown:
        assert shown.tab.locator(".token.changed[data-at]").count() == 0
        shown.tab.locator('.token[data-at="0"]').focus()
        assert "It was drawn; the likeliest was likeliest." in shown.text(".panel")
        shown.tab.locator("#changed").check()
        assert "No call has a token" in shown.text("main")


def test_the_keyboard_reaches_every_message(page: Page, story: Story) -> None:
    page.select(3)
    page.tab.locator('.token[data-at="0"]').focus()
    seen = set()
    for _ in range(60):
        page.tab.keyboard.press("Tab")
        row = page.tab.evaluate("document.activeElement.closest('[id^=message-]')?.id ?? null")
        if row is None:
            break
        seen.add(row)
    view = story.calls[2].view
    assert view is not None
    assert len(seen) == len(view.messages or ())
    page.tab.keyboard.press("Shift+Tab")
