// Puts the page together: the list of calls (or of pairs), the one selected, filter, search, theme.
"use strict";
(() => {
  const { data, el, count, percent, probability, seconds, plural, visible, say, bars } = asymspec;
  const byId = (id) => document.getElementById(id);
  const isComparison = data.pairs !== undefined;
  const sides = isComparison ? [["left", data.left], ["right", data.right]] : [["left", data]];
  asymspec.fields = sides[0][1].fields;
  const numbered = Object.fromEntries(sides.map(([name, story]) => [name, new Map(story.calls.map((call) => [call.number, call]))]));
  const scale = bars.scaleOf(sides.flatMap(([, story]) => story.calls));
  let onlyChanged = false, page = null, searched = null, hits = [], hitAt = -1;

  function theme() {
    const button = byId("theme");
    const order = ["system", "light", "dark"];
    let at = 0;
    try { at = Math.max(0, order.indexOf(localStorage.getItem("asymspec-theme"))); } catch { at = 0; } // a file may have no storage
    const apply = () => {
      const name = order[at];
      if (name === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = name;
      button.textContent = `Theme: ${name}`;
      document.dispatchEvent(new Event("themechange"));
    };
    button.addEventListener("click", () => {
      at = (at + 1) % order.length;
      try { localStorage.setItem("asymspec-theme", order[at]); } catch { /* then for this page only */ }
      apply();
      say(button.textContent);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
    apply();
  }

  function totals(story, name) {
    const total = story.total;
    const fact = (term, value) => el("div", {}, el("dt", {}, term), el("dd", {}, value));
    const prompt = total.prompt_tokens, cached = total.cached_tokens;
    byId("totals").append(el("dl", { class: "totals" }, ...[
      name ? fact(name, el("bdi", {}, visible(story.title))) : null, fact("calls", count(story.calls.length)),
      fact("answer tokens", count(total.num_response_tokens)), fact("accepted", percent(total.acceptance_rate)), fact("fused", count(total.num_fused)),
      fact("tokens a block", total.mean_accepted_length === null ? "–" : total.mean_accepted_length.toFixed(2)), fact("divergence", probability(total.mean_divergence)),
      fact("verifier read", `${count(prompt.verifier)} (${count(cached.verifier)} reused)`), fact("drafter read", `${count(prompt.drafter)} (${count(cached.drafter)} reused)`),
      fact("decoding time", seconds(total.elapsed_s)), total.num_errors ? fact("errors", count(total.num_errors)) : null,
    ].filter(Boolean)));
  }

  function notes() {
    const all = sides.flatMap(([, story]) => story.notes);
    if (!all.length) return;
    const box = byId("notes");
    box.hidden = false;
    box.querySelector("summary").textContent = `${plural(all.length, "line")} of the trace could not be read`;
    box.querySelector("ul").append(...all.slice(0, 200).map((note) => el("li", {}, visible(note))));
  }

  const headline = (call) => [`#${call.number}`, call.arm, call.ending || "no end", call.counts.acceptance_rate !== null ? `${percent(call.counts.acceptance_rate)} accepted` : null].filter(Boolean).join(" · ");
  const isShown = (call) => !onlyChanged || asymspec.tokens.numChanged(call) > 0;
  const callItem = (call) => ({
    key: call.number, label: visible(`Call ${headline(call)}; ${bars.describe(call)}`),
    make: () => [el("span", { class: "headline" }, el("bdi", {}, visible(headline(call)))), ...bars.rows(call, scale)],
  });

  function items() {
    const found = [];
    if (isComparison) {
      data.pairs.forEach((pair, at) => {
        const calls = [numbered.left.get(pair.left), numbered.right.get(pair.right)];
        if (!calls.some((call) => call && isShown(call))) return;
        const words = `Turn ${at + 1}: ${asymspec.compare.parting(pair)}`;
        found.push({ key: at + 1, label: words, make: () => [el("span", { class: `headline${pair.is_same === false ? " parted" : ""}` }, words),
          ...calls.map((call, side) => (call ? bars.time(call, scale, `${"AB"[side]} ${visible(call.arm || "")}`) : el("span", { class: "barrow" }, `${"AB"[side]} none`)))] });
      });
      return found;
    }
    for (const run of data.runs) {
      const calls = run.calls.map((number) => numbered.left.get(number)).filter(isShown);
      if (!calls.length) continue;
      found.push({ heading: visible([run.arm, run.task ? run.task.trim().slice(0, 120).replace(/\s+/g, " ") : null].filter(Boolean).join(" · ") || "calls") });
      found.push(...calls.map(callItem));
    }
    return found;
  }

  function show(key) {
    if (isComparison) {
      const pair = data.pairs[key - 1];
      page = asymspec.compare.render(pair, key, numbered.left.get(pair.left), numbered.right.get(pair.right));
    } else page = asymspec.call.render(numbered.left.get(key), data.texts);
    byId("call").replaceChildren(...page.nodes);
    byId("call").scrollTop = 0;
    page.filter(onlyChanged);
    asymspec.search.clear();
  }

  const list = asymspec.list(byId("list"), isComparison ? 68 : 92, show);

  function refilter() {
    const shown = items();
    list.set(shown);
    const keys = shown.filter((item) => item.heading === undefined).map((item) => item.key);
    if (keys.length && !keys.includes(list.selected())) list.select(keys[0]);
    else if (page) page.filter(onlyChanged);
    if (!keys.length) byId("call").replaceChildren(el("p", { class: "quiet" }, onlyChanged ? "No call has a token that the full view is known to have changed." : "The trace has no calls."));
    return keys.length;
  }

  byId("changed").addEventListener("change", (event) => {
    onlyChanged = event.target.checked;
    const num = refilter();
    say(onlyChanged ? `${plural(num, "call")} with tokens that the full view changed` : "All calls");
  });

  function go(step) {
    if (!hits.length) return;
    hitAt = (hitAt + step + hits.length) % hits.length;
    const hit = hits[hitAt];
    byId("hits").textContent = `${hitAt + 1} of ${count(hits.length)}${hits.length >= asymspec.search.MOST ? " or more" : ""}`;
    if (list.selected() !== hit.key || !page) list.select(hit.key);
    const target = page.reveal(hit);
    if (!target) return;
    const range = asymspec.search.highlight(target, byId("query").value);
    const node = range ? range.startContainer.parentElement : target;
    node.scrollIntoView({ block: "center" });
  }

  function search() {
    const query = byId("query").value;
    searched = query;
    asymspec.search.clear();
    hits = [];
    hitAt = -1;
    if (query.trim()) {
      for (const [name, story] of sides)
        for (const hit of asymspec.search.hitsOf(story.calls, isComparison ? {} : story.texts, query)) {
          const at = isComparison ? data.pairs.findIndex((pair) => pair[name] === hit.call) + 1 : hit.call;
          hits.push({ ...hit, side: name, key: at });
        }
    }
    byId("hits").textContent = query.trim() ? (hits.length ? plural(hits.length, "place") : "nothing found") : "";
  }

  let waiting = 0;
  byId("query").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 150); });
  byId("query").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(waiting);
    if (byId("query").value !== searched) search();
    go(event.shiftKey ? -1 : 1);
  });
  byId("next").addEventListener("click", () => go(1));
  byId("previous").addEventListener("click", () => go(-1));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !["INPUT", "TEXTAREA"].includes(document.activeElement.tagName)) { event.preventDefault(); byId("query").focus(); }
  });

  byId("title").textContent = isComparison ? "comparison" : visible(data.title);
  sides.forEach(([, story], at) => totals(story, isComparison ? "AB"[at] : null));
  notes();
  bars.legend(byId("legend"));
  theme();
  refilter();
  document.documentElement.dataset.ready = "yes";
})();
