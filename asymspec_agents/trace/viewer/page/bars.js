// Bars of tokens and seconds; every bar has its numbers beside it.
"use strict";
asymspec.bars = (() => {
  const { el, count, seconds } = asymspec;
  const STAGES = ["compress", "queue", "prefill", "decode"];

  function track(segments, share) {
    const inner = el("span", { class: "segments", width: `${Math.max(0.5, 100 * share)}%` });
    const sum = segments.reduce((total, [, value]) => total + value, 0);
    for (const [kind, value] of segments)
      if (value > 0) inner.append(el("span", { class: `segment ${kind}`, width: `${(100 * value) / sum}%` }));
    return el("span", { class: "track", "aria-hidden": "true" }, inner);
  }

  function view(call, role, kind, total, most) {
    const read = call.read && call.read[role][0] ? call.read[role] : null;
    const parts = read ? [[kind, read[0] - read[1]], [`${kind} reused`, read[1]]] : [[`${kind} unread`, total || 0]];
    return { parts, share: most ? (total || 0) / most : 0, read };
  }

  const wordsOf = (name, total, read) =>
    `${name} ${count(total)} tokens${read ? `: ${count(read[0] - read[1])} computed, ${count(read[1])} reused` : ""}`;

  function describe(call) {
    const full = view(call, "drafter", "full", call.full_tokens, 0);
    const short = view(call, "verifier", "short", call.compressed_tokens, 0);
    const stages = STAGES.filter((name) => call.stages[name] !== undefined);
    return [
      wordsOf("full view", call.full_tokens, full.read),
      wordsOf("compressed view", call.compressed_tokens, short.read),
      ...stages.map((name) => `${name} ${seconds(call.stages[name])}`),
    ].join("; ");
  }

  const total = (call) => STAGES.reduce((sum, name) => sum + (call.stages[name] || 0), 0);

  const row = (label, bar, number) =>
    el("span", { class: "barrow" }, el("span", { class: "barname" }, label), bar, el("span", { class: "number" }, number));

  function time(call, scale, name) {
    const spent = total(call);
    const parts = STAGES.map((stage) => [stage, call.stages[stage] || 0]);
    return row(name, track(parts, scale.seconds ? spent / scale.seconds : 0), spent ? seconds(spent) : "–");
  }

  function rows(call, scale) {
    const full = view(call, "drafter", "full", call.full_tokens, scale.tokens);
    const short = view(call, "verifier", "short", call.compressed_tokens, scale.tokens);
    return [
      row("full", track(full.parts, full.share), count(call.full_tokens)),
      row("compressed", track(short.parts, short.share), count(call.compressed_tokens)),
      time(call, scale, "time"),
    ];
  }

  function scaleOf(calls) {
    const scale = { tokens: 0, seconds: 0 };
    for (const call of calls) {
      scale.tokens = Math.max(scale.tokens, call.full_tokens || 0, call.compressed_tokens || 0);
      scale.seconds = Math.max(scale.seconds, total(call));
    }
    return scale;
  }

  function legend(node) {
    const key = (kind, text) => el("span", { class: "key" }, el("span", { class: `segment ${kind}`, "aria-hidden": "true" }), text);
    node.append(
      key("full", "full view, computed"), key("short", "compressed view, computed"), key("full reused", "reused"), key("full unread", "not read, estimated"),
      ...STAGES.map((name) => key(name, name)),
    );
  }

  return { rows, time, scaleOf, legend, describe, total };
})();
