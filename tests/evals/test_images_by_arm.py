"""Images go to those who see them: by arm for the full view, by view for the compressed one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.decoding.modes import MODES
from asymspec_agents.messages import parse_messages
from asymspec_agents.protocol import AsymSpecRequest
from evals.cells import BASELINES, IDENTICAL, READS_FULL_ONLY, ArmSpec, Cell, ViewSpec, cells_of
from evals.records import Output
from evals.sample import LongPart, Sample
from evals.suites.mathvista import MathVista
from evals.systems import System, SystemOptions, open_system
from evals.views import RouterLimits, ViewMaker
from tests.attachments.files import image, image_part
from tests.evals.mathvista_made import github
from tests.evals.test_views import means
from tests.evals.tiny_system import asked, tiny_options
from tests.odd_server import ANSWER, HANDSHAKE, Call, OddServer, chunk, odd_server, sse

ARMS = (*BASELINES, IDENTICAL, "paper", *MODES, "slack+context", "cda+none")
SHOWN = "[image: 40×30] " + "A chart of the tides in the bay. " * 40
REPORT = {"version": 1, "mode": "asymspec", "drafted": 2, "accepted": 1, "accepted_per_position": [1, 0]}


def test_who_reads_which_view_is_what_the_engine_does(tmp_path: Path) -> None:
    system = open_system(tiny_options(tmp_path))
    view = ViewSpec("truncate", 0.3)
    try:
        for cell in cells_of(tuple(map(ArmSpec, ARMS)), (view,)):
            (call,) = asked(system, str(cell))[1].calls
            read = call.prompt_tokens
            told = {"verifier": {read.verifier}, "drafter": {read.drafter, read.base}}
            full = {name for name, sizes in told.items() if call.full_tokens in sizes}
            compressed = {name for name, sizes in told.items() if call.compressed_tokens in sizes}
            assert (full, compressed) == (cell.arm.full_readers, cell.arm.compressed_readers), str(cell)
            assert bool(compressed) == cell.arm.needs_view == (cell.arm.name not in READS_FULL_ONLY)
    finally:
        system.close()


def pair(call: Call) -> None:
    """A server that has both models by themselves and as a pair, and answers the same whatever is asked."""
    if call.path.endswith("/v1/models"):
        call.reply({"data": [{"id": "big"}, {"id": "small"}]})
    elif call.method != "POST" or call.path == "/tokenize":
        call.reply({"error": {"message": "not here"}}, 404)
    else:
        report = {"asymspec": REPORT} if "asymspec" in call.body else {}
        end = chunk({}, "stop", usage=ANSWER["usage"], **report)
        call.begin()
        call.send(sse(chunk({"content": "14"}), end, "[DONE]"))


@dataclass(frozen=True)
class Asking:
    """A made problem whose image has a text, and the systems that may be asked, by who sees."""

    server: OddServer
    suite: MathVista
    sample: Sample
    systems: Mapping[str, System]

    def answered(self, cell: str, who: str) -> tuple[Output, Mapping[str, Any]]:
        """The output, and what was sent for it."""
        asker = self.systems[who].asker(self.suite, self.sample, Cell.parse(cell))
        output = self.suite.answer(self.sample, asker)
        return output, [call.body for call in self.server.posts if call.path.endswith("/completions")][-1]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    suite = MathVista()
    samples = suite.load(github(tmp_path_factory.mktemp("mathvista")))
    with odd_server(pair, handshake={**HANDSHAKE, "modes": list(MODES)}) as server:
        systems = {
            who: open_system(
                SystemOptions(
                    url=server.url,
                    verifier_sees_images=who in ("verifier", "both"),
                    drafter_sees_images=who in ("drafter", "both"),
                )
            )
            for who in SEEING
        }
        yield Asking(server, suite, next(sample for sample in samples if sample.id == "1"), systems)
        for system in systems.values():
            system.close()


def kinds(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What stands in the image's place in the full view and, where it is sent, in the compressed one."""
    views = [parse_messages(body["messages"])]
    if "asymspec" in body:
        views.append(AsymSpecRequest.of(**body["asymspec"]).compressed_messages(views[0]))
    return tuple(view[0].wire()["content"][0]["type"] for view in views)


SEEING = ("nobody", "drafter", "verifier", "both")
IMAGE, TEXT = "image_url", "text"
READ = (TEXT, TEXT)
SEEN = (IMAGE, IMAGE)
CROSS = (IMAGE, TEXT)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("ceiling", ((TEXT,), (TEXT,), (IMAGE,), (IMAGE,))),
        ("drafter", ((TEXT,), (IMAGE,), (TEXT,), (IMAGE,))),
        ("floor on truncate@1", ((TEXT,), (TEXT,), (TEXT,), (TEXT,))),
        ("floor on none", ((TEXT,), (TEXT,), (IMAGE,), (IMAGE,))),
        ("asymspec on truncate@1", (READ, CROSS, READ, CROSS)),
        ("cda+none on truncate@1", (READ, CROSS, READ, CROSS)),
        ("asymspec on none", (READ, CROSS, READ, SEEN)),
        ("asymspec on signature", (READ, CROSS, READ, CROSS)),
        ("asymspec on router", (READ, CROSS, READ, CROSS)),
        ("identical", (READ, READ, READ, SEEN)),
        ("symmetric_full", (READ, READ, READ, SEEN)),
        ("symmetric_compressed on truncate@1", (READ, READ, READ, READ)),
        ("symmetric_compressed on none", (READ, READ, READ, SEEN)),
    ],
)
def test_each_view_shows_the_image_to_those_who_see(
    asking: Asking, cell: str, expected: Sequence[tuple[str, ...]]
) -> None:
    assert [kinds(asking.answered(cell, who)[1]) for who in SEEING] == list(expected)


def test_a_seeing_drafter_and_a_reading_verifier_get_their_own_view(asking: Asking) -> None:
    output, body = asking.answered("asymspec on truncate@1", "drafter")
    (edit,) = body["asymspec"]["edits"]
    assert edit["text"] == asking.sample.details["image_text"]
    assert body["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")
    assert output.trajectory[0]["full_view"] == "image"
    assert output.views[0]["full"] == "[image_url]"
    floor, plain = asking.answered("floor on truncate@1", "drafter")
    assert plain["messages"][0]["content"][0] == {"type": "text", "text": edit["text"]}
    assert floor.trajectory[0]["full_view"] == "text"


MESSAGES = parse_messages(
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [image_part(image()), {"type": "text", "text": "When is high tide?"}]},
    ]
)
PART = LongPart(1, 0, SHOWN)


@pytest.mark.parametrize("sees", [False, True])
@pytest.mark.parametrize("view", ["none", "signature", "router", "router@0.2", "head@0.2", "truncate@1"])
def test_a_part_with_a_text_is_that_text_in_every_compressed_view(view: str, sees: bool) -> None:
    maker = ViewMaker(ViewSpec.parse(view), means())
    made = maker.make(
        MESSAGES, (), query="When is high tide?", long_parts=(PART, PART), limits=RouterLimits(),
        sees_images=sees,
    )  # fmt: skip
    assert made.messages == MESSAGES
    if view == "none" and sees:
        assert made.edits == ()
        return
    (edit,) = made.edits
    assert (edit.message, edit.part) == (1, 0)
    assert (edit.text == SHOWN) == (view != "head@0.2")  # a router leaves the last message whole
    assert edit.text.startswith("[image: 40×30] A chart")
