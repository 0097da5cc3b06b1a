"""Outputs of parallel calls: headings in, boundaries out, from the text alone."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from smolagents_asymspec.outputs import join_outputs, split_outputs


def output(identity: str, name: str, observation: str) -> SimpleNamespace:
    return SimpleNamespace(id=identity, observation=observation, tool_call=SimpleNamespace(name=name))


def test_each_of_several_outputs_gets_a_heading_and_becomes_a_piece():
    text = "Observation:\n" + join_outputs([output("a", "search", "x\ny"), output("b", "read", "")])
    assert text == "Observation:\nCall id: a, tool: search:\nx\ny\nCall id: b, tool: read:\n"
    assert split_outputs(text) == (
        "Observation:",
        "Call id: a, tool: search:\nx\ny",
        "Call id: b, tool: read:\n",
    )


def test_a_single_output_keeps_smolagents_own_text():
    assert join_outputs([output("a", "search", "x")]) is None
    assert join_outputs([]) is None


def test_only_observations_are_split():
    headings = "Call id: a, tool: f:\nCall id: b, tool: f:\n"
    assert split_outputs(headings) == (headings,)
    assert split_outputs("Observation:\nCall id: a, tool: f:\nx") == (
        "Observation:\nCall id: a, tool: f:\nx",
    )


lines = st.lists(
    st.sampled_from(["Call id: a, tool: f:", "text", "", "Call id: , tool: f:", "é😀", "\ud800"])
)


@given(lines)
def test_pieces_always_join_to_the_text(lines):
    text = "\n".join(["Observation:", *lines])
    assert "\n".join(split_outputs(text)) == text


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.text(alphabet="x\n ", max_size=10)), min_size=2, max_size=5)
)
def test_one_piece_for_each_output(outputs):
    text = "Observation:\n" + join_outputs([output(identity, "f", body) for identity, body in outputs])
    assert len(split_outputs(text)) == 1 + len(outputs)
