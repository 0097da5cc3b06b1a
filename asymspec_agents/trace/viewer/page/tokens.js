// An answer token by token: where each came from, in colour and in line; a strip of divergences above them.
"use strict";
asymspec.tokens = (() => {
  const { el, count, probability, shown, visible } = asymspec;
  const CHUNK = 300;
  const LN2 = Math.log(2);
  const NAMES = { __proto__: null, accepted: "accepted draft", fused: "fused", bonus: "verifier's bonus", plain: "without a draft" };

  function position(call, at) {
    const row = call.positions[at];
    const found = {};
    asymspec.fields.forEach((name, column) => (found[name] = row[column] === undefined ? null : row[column]));
    return found;
  }

  const ORIGIN = () => asymspec.fields.indexOf("origin");
  // A token without a draft that is not the likeliest was drawn: no view changed it.
  const changes = (one) => one.is_argmax === false && one.origin !== "plain";
  const isChanged = (call, at) => changes(position(call, at));

  function label(one, at) {
    const parts = [`${shown(one.text ?? one.token)}, ${NAMES[one.origin] || visible(one.origin)}`, `token ${at + 1}`];
    if (changes(one)) parts.push(`the full view changed it, the verifier alone: ${shown(one.argmax)}`);
    if (one.divergence !== null) parts.push(`divergence ${probability(one.divergence)}`);
    return parts.join("; ");
  }

  function token(call, at) {
    const one = position(call, at);
    const kind = NAMES[one.origin] ? one.origin : "plain";
    const text = one.text === null ? "▪" : one.text;
    const empty = text === "" && one.token ? ` empty` : "";
    const inner = text === "" ? (one.token && !one.token.includes("\uFFFD") ? shown(one.token) : "·") : visible(text).replace(/\n/g, "↵\n");
    return el("span", {
      class: `token ${kind}${changes(one) ? " changed" : ""}${empty}`, role: "option", tabindex: "-1",
      "data-at": at, "aria-label": label(one, at), "aria-selected": "false",
    }, inner);
  }

  // The list of an answer's tokens; `choose` is told which one is focused or pointed at.
  function list(call, choose, name) {
    const box = el("div", { class: "tokens", role: "listbox", "aria-label": name, "aria-orientation": "horizontal", dir: "auto" });
    const chunks = [];
    let current = 0, only = false;
    const usable = (at) => !only || isChanged(call, at);
    const fill = (chunk) => {
      if (chunk.filled) return;
      chunk.filled = true;
      chunk.node.style.minHeight = "";
      const made = document.createDocumentFragment();
      for (let at = chunk.from; at < chunk.to; at++) made.append(token(call, at));
      chunk.node.append(made);
    };
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { fill(chunks[Number(entry.target.dataset.chunk)]); watcher.unobserve(entry.target); }
    }, { rootMargin: "600px" });
    for (let from = 0; from < call.positions.length; from += CHUNK) {
      const node = el("span", { role: "none", class: "chunk", "data-chunk": chunks.length });
      chunks.push({ node, from, to: Math.min(from + CHUNK, call.positions.length), filled: false });
      box.append(node);
      if (from === 0) fill(chunks[0]);
      else { node.style.minHeight = "9em"; watcher.observe(node); }
    }
    const node = (at) => {
      const chunk = chunks[Math.floor(at / CHUNK)];
      fill(chunk);
      return chunk.node.children[at - chunk.from];
    };
    function mark(at) {
      const old = box.querySelector('[aria-selected="true"]');
      if (old) { old.setAttribute("aria-selected", "false"); old.tabIndex = -1; }
      const now = node(at);
      now.setAttribute("aria-selected", "true");
      now.tabIndex = 0;
      current = at;
      choose(at);
      return now;
    }
    function focus(at) {
      const target = mark(at);
      target.focus({ preventScroll: true });
      target.scrollIntoView({ block: "nearest" });
    }
    function step(from, by) {
      for (let at = from + by; at >= 0 && at < call.positions.length; at += by) if (usable(at)) return at;
      return null;
    }
    box.addEventListener("keydown", (event) => {
      const last = call.positions.length;
      const to = { ArrowRight: () => step(current, 1), ArrowLeft: () => step(current, -1), Home: () => step(-1, 1),
        End: () => step(last, -1), ArrowDown: () => step(Math.min(current + 9, last - 1), 1), ArrowUp: () => step(Math.max(current - 9, 0), -1) }[event.key];
      if (!to) return;
      event.preventDefault();
      const at = to();
      if (at !== null) focus(at);
    });
    box.addEventListener("focusin", (event) => { if (event.target.dataset.at && Number(event.target.dataset.at) !== current) mark(Number(event.target.dataset.at)); else if (event.target.dataset.at) choose(current); });
    box.addEventListener("pointerover", (event) => { const at = event.target.dataset && event.target.dataset.at; if (at !== undefined) choose(Number(at)); });
    box.addEventListener("click", (event) => { const at = event.target.dataset && event.target.dataset.at; if (at !== undefined) focus(Number(at)); });
    if (chunks.length) node(0).tabIndex = 0;
    function filter(on) {
      only = on;
      box.classList.toggle("only", on);
      const first = step(-1, 1);
      box.querySelectorAll('.token[tabindex="0"]').forEach((old) => (old.tabIndex = -1));
      if (first !== null) node(usable(current) ? current : first).tabIndex = 0;
    }
    return { box, focus, node, filter };
  }

  // Divergence by height and colour, one bar a position (a column's highest, where there are more positions).
  function strip(call, focus) {
    const column = asymspec.fields.indexOf("divergence");
    const values = call.positions.map((row) => (row[column] === undefined ? null : row[column]));
    const known = values.filter((value) => value !== null);
    if (!known.length) return null;
    const high = values.reduce((best, value, at) => ((value || 0) > (values[best] || 0) ? at : best), 0);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    const isKnown = call.positions.some((row) => typeof row[asymspec.fields.indexOf("is_argmax")] === "boolean");
    const words = `Divergence of ${count(known.length)} positions: mean ${probability(mean)}, highest ${probability(values[high])} at token ${high + 1}`;
    const canvas = el("canvas", { class: "strip", role: "img", "aria-label": words });
    const draw = () => {
      const width = Math.max(50, canvas.clientWidth || 600), height = 44, ratio = window.devicePixelRatio || 1;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      const columns = Math.min(values.length, Math.floor(width / 2));
      const gap = width / columns;
      const colour = (name) => { canvas.style.color = `var(${name})`; return getComputedStyle(canvas).color; }; // a canvas knows no light-dark()
      const [cool, warm, hot, ink] = ["--cool", "--warm", "--hot", "--ink"].map(colour);
      for (let at = 0; at < columns; at++) {
        const from = Math.floor((at * values.length) / columns), to = Math.max(from + 1, Math.floor(((at + 1) * values.length) / columns));
        let value = 0, changed = false;
        for (let i = from; i < to; i++) { value = Math.max(value, values[i] || 0); changed = changed || isChanged(call, i); }
        const share = Math.min(1, value / LN2);
        pen.fillStyle = share > 0.5 ? hot : share > 0.15 ? warm : cool;
        const tall = Math.max(1.5, share * (height - 8));
        pen.fillRect(at * gap, height - tall, Math.min(Math.max(1, gap - 0.6), 40), tall);
        if (changed) { pen.fillStyle = ink; pen.fillRect(at * gap, 0, Math.min(Math.max(1.5, gap - 0.6), 40), 3); }
      }
    };
    canvas.addEventListener("click", (event) => {
      const columns = Math.min(values.length, Math.floor(canvas.clientWidth / 2));
      const at = Math.floor((event.offsetX / canvas.clientWidth) * columns);
      focus(Math.min(values.length - 1, Math.floor((at * values.length) / columns)));
    });
    new ResizeObserver(draw).observe(canvas);
    document.addEventListener("themechange", draw);
    const note = el("p", { class: "quiet" }, `${words}.${isKnown ? " A mark on top: the full view changed the token." : ""}`);
    return el("div", { class: "stripbox" }, canvas, note);
  }

  function legend() {
    const key = (kind, text) => el("span", { class: "key" }, el("span", { class: `token ${kind}`, "aria-hidden": "true" }, "token"), text);
    return el("p", { class: "legend" }, key("accepted", "accepted draft"), key("fused", "fused"), key("bonus", "verifier's bonus"),
      key("plain", "without a draft"), key("plain changed", "changed by the full view"));
  }

  const numChanged = (call) => call.positions.reduce((sum, _, at) => sum + (isChanged(call, at) ? 1 : 0), 0);
  return { list, strip, legend, position, numChanged, isChanged, changes, NAMES, ORIGIN };
})();
