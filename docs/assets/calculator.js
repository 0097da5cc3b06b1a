// The cost model of the page "When to use it", at 2·parameters·tokens; nothing is sent anywhere.
"use strict";

(() => {
  const form = document.getElementById("calculator");
  const fields = ["verifier", "drafter", "full", "compressed", "full_cached", "compressed_cached",
    "answer", "k", "acceptance"];

  /**
   * The chance that a judged draft is accepted, from accepted/drafted. A block drafts n tokens and ends at the
   * first refusal, so it accepts p + p² + … + pⁿ of n; the sum grows with p, so halving intervals finds it.
   */
  const chance = (acceptance, n) => {
    let [low, high] = [0, 1];
    for (let step = 0; step < 60; step += 1) {
      const p = (low + high) / 2;
      let accepted = 0;
      for (let i = 1; i <= n; i += 1) accepted += p ** i;
      if (accepted < acceptance * n) low = p;
      else high = p;
    }
    return (low + high) / 2;
  };

  const costs = (given) => {
    const share = given.drafter / given.verifier;
    const full = given.full * (1 - given.full_cached / 100);
    const compressed = given.compressed * (1 - given.compressed_cached / 100);
    const perBlock = given.k + 1;
    const acceptance = given.acceptance / 100;
    const tokensPerBlock = acceptance * perBlock + (1 - chance(acceptance, perBlock) ** perBlock);
    const blocks = given.answer / tokensPerBlock;
    const prefill = compressed + share * (full + compressed); // in units of the verifier's parameters
    const decode = blocks * perBlock * (1 + 2 * share);
    return {
      breakEven: (1 - share) / (1 + share),
      ratio: given.compressed / given.full,
      prefill: full > 0 ? prefill / full : NaN,
      decode: given.answer > 0 ? decode / given.answer : NaN,
      total: (prefill + decode) / (full + given.answer),
      tokensPerBlock,
    };
  };

  const times = (value) => (Number.isFinite(value) ? `${value.toFixed(2)}×` : "undefined");

  const show = () => {
    const lines = [];
    if (form.checkValidity()) {
      const given = Object.fromEntries(fields.map((name) => [name, form.elements[name].valueAsNumber]));
      const found = costs(given);
      if (found.breakEven <= 0) {
        lines.push("A drafter as large as its verifier saves nothing, whatever the views.");
      } else {
        lines.push(`The compressed view is ${found.ratio.toFixed(2)} of the full one; without caches, prefill `
          + `is cheaper below ${found.breakEven.toFixed(2)}.`);
      }
      lines.push(`FLOPs relative to Ceiling: prefill ${times(found.prefill)}, decoding ${times(found.decode)}, `
        + `the whole call ${times(found.total)}.`);
      lines.push(`A block emits ${found.tokensPerBlock.toFixed(2)} tokens on average.`);
    } else {
      const wrong = fields.map((name) => form.elements[name]).find((input) => !input.validity.valid);
      lines.push(`${wrong.parentElement.firstChild.textContent.trim()}: ${wrong.validationMessage}`);
    }
    form.elements.result.replaceChildren(...lines.map((line) => {
      const paragraph = document.createElement("p");
      paragraph.textContent = line;
      return paragraph;
    }));
  };

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  show();
})();
