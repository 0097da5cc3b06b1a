// One call: its facts, its answer, the acceptance of its positions, and both of its views.
"use strict";
asymspec.call = (() => {
  const { el, count, percent, probability, seconds, plural, visible } = asymspec;
  const fact = (name, ...value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));

  function facts(call) {
    const counts = call.counts;
    const options = call.options || {};
    const mode = [call.mode, call.fallback ? `(${call.fallback})` : ""].filter(Boolean).join(" ");
    const numbers = [["β", options.beta], ["γ", options.gamma], ["K", options.num_draft_tokens], ["bonus", options.bonus]];
    const rule = options.gate ? [[options.gate, options.delta].filter(Boolean).join(" + "), ...numbers.filter(([, value]) => value !== null).map((pair) => pair.join(" "))].join(", ") : null;
    return el("dl", { class: "facts wide" },
      fact("arm", visible(call.arm || "–")), fact("mode", visible(mode || "–")), rule ? fact("rule", visible(rule)) : null,
      fact("ended with", visible(call.ending || "(no end in the trace)")), fact("answer", plural(counts.num_response_tokens, "token")),
      fact("blocks", count(counts.num_blocks)), fact("accepted", `${percent(counts.acceptance_rate)} of ${count(counts.num_drafted)} drafts`),
      fact("per block", counts.mean_accepted_length === null ? "–" : `${counts.mean_accepted_length.toFixed(2)} tokens`),
      fact("divergence", `${probability(counts.mean_divergence)} on average`), fact("request", el("code", {}, visible(call.id))));
  }

  function reading(call) {
    if (!call.read) return null;
    const names = { verifier: "verifier, compressed view", base: "drafter, compressed view", drafter: "drafter, full view" };
    if (["ceiling", "symmetric_full", "rapid"].includes(call.arm)) names.verifier = "verifier, full view";
    const rows = Object.entries(names).filter(([role]) => call.read[role] && call.read[role][0]).map(([role, name]) =>
      el("tr", {}, el("th", { scope: "row" }, name), ...[call.read[role][0], call.read[role][0] - call.read[role][1], call.read[role][1]].map((n) => el("td", { class: "number" }, count(n)))));
    if (!rows.length) return null;
    return el("table", {}, el("caption", {}, "Prompts, in tokens"), el("thead", {}, el("tr", {}, ...["read by", "all", "computed", "reused"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows));
  }

  function acceptance(counts) {
    if (!counts.drafted_per_position.length) return null;
    const rows = counts.drafted_per_position.map((drafted, at) => {
      const accepted = counts.accepted_per_position[at] || 0;
      return el("tr", {}, el("th", { scope: "row" }, String(at + 1)), el("td", { class: "number" }, count(accepted)), el("td", { class: "number" }, count(drafted)),
        el("td", { class: "number" }, percent(drafted ? accepted / drafted : null)), el("td", { class: "barcell", "aria-hidden": "true" }, el("span", { class: "pbar", width: `${drafted ? (100 * accepted) / drafted : 0}%` })));
    });
    return el("table", {}, el("caption", {}, "Acceptance per position of a block"), el("thead", {}, el("tr", {}, ...["position", "accepted", "drafted", "rate", ""].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows));
  }

  function stages(call) {
    const known = Object.entries(call.stages);
    if (!known.length) return null;
    return el("table", {}, el("caption", {}, "Time"), el("tbody", {}, known.map(([name, s]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, seconds(s))))));
  }

  // The answer with its strip, what stands below, and beside both the panel that explains a token; null where
  // the call has no positions.
  function answer(call, name, ...below) {
    if (!call.positions.length) return null;
    const panel = el("aside", { class: "panel", "aria-label": "Position" }, ...asymspec.detail(null));
    const list = asymspec.tokens.list(call, (at) => panel.replaceChildren(...asymspec.detail(asymspec.tokens.position(call, at), at)), name);
    const strip = asymspec.tokens.strip(call, list.focus);
    const hasText = call.positions.some((row) => row[0] !== null && row[0] !== undefined);
    const rest = [];
    if (!hasText && call.answer !== null) rest.push(el("div", { class: "text answer", dir: "auto" }, visible(call.answer)));
    if (!call.has_detail) rest.push(el("p", { class: "quiet" }, 'No position has numbers: record with level="detail" to see why each token was emitted.'));
    else if (!hasText) rest.push(el("p", { class: "quiet" }, "Texts were not recorded: each mark is a token."));
    return { node: el("div", { class: "answerbox" }, el("div", { class: "answermain" }, asymspec.tokens.legend(), strip, list.box, rest, below), panel), list };
  }

  // The call's page; `reveal` opens a place that a search found.
  function render(call, texts) {
    const factsNode = el("section", { class: "factbox", "aria-label": "Facts" }, facts(call), el("div", { class: "tables" }, reading(call), stages(call), acceptance(call.counts)));
    const made = answer(call, `Answer of call ${call.number}, token by token`, factsNode);
    const views = asymspec.views(call, texts);
    const changed = call.messages.filter((one) => one.parts.some((part) => part.shown_digest) || one.is_left_out).length;
    const bare = !made && call.answer !== null ? el("div", { class: "text answer", dir: "auto" }, visible(call.answer)) : null;
    const nodes = [
      el("h2", {}, `Call ${call.number}`),
      call.error ? el("p", { class: "flag" }, visible(call.error)) : null,
      ...call.remarks.map((text) => el("p", { class: "flag" }, visible(text))),
      el("section", { "aria-labelledby": "h-answer" }, el("h3", { id: "h-answer" }, "Answer"), made ? made.node : bare || el("p", { class: "quiet" }, "Nothing of an answer is in this trace.")),
      made ? null : factsNode,
      el("section", { "aria-labelledby": "h-views" }, el("h3", { id: "h-views" }, "Both views"),
        el("p", { class: "quiet" }, call.messages.length ? `${plural(call.messages.length, "message")}, ${changed} changed in the compressed view. Red and struck: left out; green and underlined: written by the compressor.` : "The trace has no messages: record with captures_content=True or level=\"detail\", in the router as well."), views.box),
    ].filter(Boolean);
    function reveal(hit) {
      if (hit.place === "answer") return made ? made.node : bare;
      if (hit.place === "facts") return factsNode;
      const node = views.reveal(hit.row);
      const parts = [...node.querySelectorAll(":scope > .part")];
      const target = hit.place === "tool" ? node.querySelectorAll(":scope > .toolcall")[hit.at] : parts[hit.at];
      if (target && target.reveal) target.reveal();
      for (let buttons = 40, more; buttons && target && (more = target.querySelector("button.more")); buttons--) more.click();
      return target || node;
    }
    return { nodes, reveal, filter: (on) => made && made.list.filter(on) };
  }

  return { render, answer, facts, acceptance };
})();
