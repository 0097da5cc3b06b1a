// One position's numbers: why the token stands there, and what else might have.
"use strict";
asymspec.detail = (() => {
  const { el, probability, shown } = asymspec;

  function verdict(one) {
    if (one.origin === "plain") return "The model's own token; nothing was drafted.";
    if (one.origin === "bonus") return "The verifier's own token, behind a block of accepted drafts.";
    const kept = one.origin === "accepted";
    if (one.gamma_eff === null || one.p_t === null || one.p_b === null)
      return kept ? "The draft was accepted." : "The draft was refused; this token ends the block.";
    return `p_t ${probability(one.p_t)} ${kept ? ">" : "≤"} γ_eff · p_b = ${probability(one.gamma_eff * one.p_b)}: the draft is ${kept ? "accepted" : "refused, and the fused token ends the block"}.`;
  }

  function alternative(one, word) {
    if (one.is_argmax === null) return null;
    if (asymspec.tokens.changes(one)) return el("p", { class: "flag" }, "▲ The full view changed it. The verifier alone would have emitted ", word(one.argmax));
    if (one.is_argmax === false) return el("p", { class: "quiet" }, "It was drawn; the likeliest was ", word(one.argmax), ".");
    return el("p", { class: "quiet" }, one.origin === "plain" ? "It is the likeliest." : "The verifier alone would have emitted the same.");
  }

  function best(name, choices, current) {
    if (!choices || !choices.length) return null;
    const body = choices.map(([p, id, text]) =>
      el("tr", { class: id !== undefined && id !== null && id === current ? "emitted" : null },
        el("td", {}, el("bdi", {}, text === undefined || text === null ? "–" : shown(text))),
        el("td", { class: "number" }, probability(p)),
        el("td", { class: "barcell", "aria-hidden": "true" }, el("span", { class: "pbar", width: `${100 * p}%` }))));
    return el("table", { class: "best" }, el("caption", {}, name), el("tbody", {}, body));
  }

  // What the panel shows for a position; null empties it.
  return (one, at) => {
    if (one === null) return [el("p", { class: "quiet" }, "Point at a token, or focus one and use the arrow keys.")];
    const fact = (name, value, text) => el("div", {}, el("dt", {}, name), el("dd", {}, value, text ? el("span", { class: "quiet" }, ` ${text}`) : null));
    const word = (text) => el("bdi", { class: "word" }, shown(text));
    return [
      el("h4", {}, `Token ${at + 1}: `, word(one.text || one.token), ` · ${asymspec.tokens.NAMES[one.origin] || asymspec.visible(one.origin)}`),
      el("p", {}, one.draft === null ? [] : ["The draft was ", word(one.draft), ". "], verdict(one)),
      alternative(one, word),
      el("dl", { class: "facts" },
        fact("p_t of draft", probability(one.p_t), "verifier"), fact("p_a", probability(one.p_a), "drafter, full"),
        fact("p_b", probability(one.p_b), "drafter, compressed"), fact("divergence", probability(one.divergence), "of a and b, ≤ 0.693"),
        fact("γ_eff", probability(one.gamma_eff), "share of p_b"), fact("p_t of token", probability(one.emitted_p_t), "verifier")),
      best("Verifier (t)", one.best_t, one.token_id), best("Drafter, full view (a)", one.best_a, one.token_id),
      best("Drafter, compressed view (b)", one.best_b, one.token_id),
    ].filter(Boolean);
  };
})();
