// Two traces, turn by turn: both answers, where they part, and what differed.
"use strict";
asymspec.compare = (() => {
  const { el, count, percent, probability, seconds, visible } = asymspec;

  function parting(pair) {
    if (!pair.left || !pair.right) return "only in one trace";
    if (pair.is_same === null) return "answers not recorded";
    if (pair.is_same) return "same answer";
    return pair.common_tokens !== null ? `parts at token ${pair.common_tokens + 1}` : `parts at character ${pair.common_chars + 1}`;
  }

  function table(left, right) {
    const row = (name, of) => {
      const values = [left, right].map((call) => (call ? of(call) : "–"));
      return el("tr", { class: values[0] === values[1] ? null : "differs" }, el("th", { scope: "row" }, name), ...values.map((value) => el("td", { class: "number" }, value)));
    };
    return el("table", { class: "comparison" }, el("caption", {}, "What differed"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, ""), el("th", { scope: "col" }, "A"), el("th", { scope: "col" }, "B"))),
      el("tbody", {},
        row("arm", (call) => visible(call.arm || "–")), row("mode", (call) => visible(call.mode || "–")), row("ended with", (call) => visible(call.ending || "–")),
        row("full view, tokens", (call) => count(call.full_tokens)), row("compressed view, tokens", (call) => count(call.compressed_tokens)),
        row("answer, tokens", (call) => count(call.counts.num_response_tokens)), row("blocks", (call) => count(call.counts.num_blocks)),
        row("accepted", (call) => percent(call.counts.acceptance_rate)), row("divergence", (call) => probability(call.counts.mean_divergence)),
        row("changed by the full view", (call) => (call.has_detail ? count(asymspec.tokens.numChanged(call)) : "–")),
        row("time", (call) => seconds(asymspec.bars.total(call)))));
  }

  function side(name, call, pair) {
    const heading = el("h3", {}, call ? `${name}: call ${call.number}, ${visible(call.arm || "no arm")}` : `${name}: no such turn`);
    if (!call) return { node: el("section", { class: "half" }, heading), filter: () => {} };
    const made = asymspec.call.answer(call, `Answer of ${name}`);
    if (made && pair.common_tokens !== null && !pair.is_same && pair.common_tokens < call.positions.length)
      made.list.node(pair.common_tokens).classList.add("parts");
    const plain = call.answer !== null ? el("div", { class: "text answer", dir: "auto" }, visible(call.answer)) : el("p", { class: "quiet" }, "No answer in this trace.");
    return { node: el("section", { class: "half" }, heading, made ? made.node : plain), filter: (on) => made && made.list.filter(on) };
  }

  function render(pair, number, left, right) {
    const a = side("A", left, pair), b = side("B", right, pair);
    return {
      nodes: [el("h2", {}, `Turn ${number}: ${parting(pair)}`), table(left, right), el("div", { class: "halves" }, a.node, b.node)],
      reveal: (hit) => (hit.side === "right" ? b.node : a.node),
      filter: (on) => { a.filter(on); b.filter(on); },
    };
  }

  return { render, parting };
})();
