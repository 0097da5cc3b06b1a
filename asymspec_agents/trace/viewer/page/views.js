// Both views of a call, message by message; what the compressed view dropped or wrote itself is marked in place.
"use strict";
asymspec.views = (() => {
  const { el, count, plural, visible } = asymspec;
  const CHUNK = 20000; // characters of one element
  const FIRST = 60000; // shown before the rest is asked for
  const FOLDED_LINES = 14;

  function chunks(text) {
    const found = [];
    for (let from = 0; from < text.length; ) {
      let to = Math.min(text.length, from + CHUNK);
      const end = to < text.length ? text.lastIndexOf("\n", to) : -1;
      if (end > from) to = end + 1;
      if (to < text.length && text.charCodeAt(to - 1) >= 0xd800 && text.charCodeAt(to - 1) < 0xdc00) to++;
      found.push(text.slice(from, to));
      from = to;
    }
    return found;
  }

  // Appends a text, of a very long one the beginning; returns whether there is more behind a button.
  function write(box, tag, kind, text) {
    const put = (parent, piece) => parent.append(el(tag, { class: kind }, visible(piece)));
    if (text.length <= CHUNK) return put(box, text);
    const parts = chunks(text);
    let shownChars = 0, at = 0;
    for (; at < parts.length && shownChars < FIRST; at++) { put(box, parts[at]); shownChars += parts[at].length; }
    if (at === parts.length) return;
    const rest = parts.slice(at);
    const button = el("button", { type: "button", class: "more", on: { click: () => {
      const made = document.createDocumentFragment();
      rest.forEach((part) => put(made, part));
      button.replaceWith(made);
    } } }, `Show the other ${plural(text.length - shownChars, "character")}`);
    box.append(button);
  }

  // A run of a side-by-side text: of a long one the ends, its middle behind a button.
  function folded(box, tag, kind, text, name) {
    const lines = text.match(/[^\n]*\n|[^\n]+$/g) || [];
    if (lines.length <= FOLDED_LINES && text.length < 4000) return write(box, tag, kind, text);
    const head = lines.slice(0, 4).join("").slice(0, 800);
    const tail = lines.length > FOLDED_LINES ? lines.slice(-3).join("").slice(-600) : "";
    const middle = text.slice(head.length, text.length - tail.length);
    const num = (middle.match(/\n/g) || []).length;
    write(box, tag, kind, head);
    const button = el("button", { type: "button", class: "more", on: { click: () => {
      const made = el("span", {});
      write(made, tag, kind, middle);
      button.replaceWith(made);
    } } }, num > 1 ? `… ${plural(num, `more ${name} line`)}` : `… ${plural(middle.length, `more ${name} character`)}`);
    box.append(button, "\n");
    if (tail) write(box, tag, kind, tail);
  }

  function whole(text) {
    const box = el("div", { class: "text", dir: "auto" });
    write(box, "span", "", text);
    return box;
  }

  function missing(digest, numChars) {
    return el("p", { class: "quiet" }, digest ? `${plural(numChars || 0, "character")}, not recorded (sha256 ${visible(digest.slice(0, 12))}…)` : "no text");
  }

  const textOf = (texts, digest) => (digest && Object.hasOwn(texts, digest) ? texts[digest] : null);

  const TIERS = { __proto__: null, compressed: "compressed", extract: "an extract for the room left", head_and_tail: "head and tail", marker: "a marker", ellipsis: "an ellipsis" };

  function reason(part) {
    const said = [];
    if (part.compressor) said.push(`${TIERS[part.tier] || visible(part.tier || "shortened")} by ${visible(part.compressor)}`);
    if (part.tokens !== undefined) said.push(`${count(part.tokens)} → ${count(part.shown_tokens)} tokens`);
    else if (part.num_shown_chars !== undefined && part.num_chars !== undefined) said.push(`${count(part.num_chars)} → ${count(part.num_shown_chars)} characters`);
    if (part.degraded) said.push("its compressor failed");
    if (part.cut) said.push(`the full view itself was cut from ${count(part.cut.tokens)} tokens (${visible(part.cut.compressor || "")})`);
    return said.join("; ");
  }

  function changedPart(texts, part) {
    const full = textOf(texts, part.digest), short = textOf(texts, part.shown_digest);
    const left = el("div", { class: "side" }, el("h6", {}, "Full view (drafter)"));
    const right = el("div", { class: "side" }, el("h6", {}, "Compressed view (verifier)"));
    if (full !== null && short !== null && !part.type) {
      const parts = asymspec.diff(full, short);
      const leftBox = el("div", { class: "text", dir: "auto" }), rightBox = el("div", { class: "text", dir: "auto" });
      for (const run of parts.full) folded(leftBox, run.kept ? "span" : "del", run.kept ? "kept" : "", run.text, run.kept ? "unchanged" : "dropped");
      for (const run of parts.shown) folded(rightBox, run.kept ? "span" : "ins", run.kept ? "kept" : "", run.text, run.kept ? "unchanged" : "added");
      left.append(leftBox);
      right.append(rightBox);
    } else {
      left.append(part.type ? el("p", { class: "quiet" }, `a part of type ${visible(part.type)}`) : full !== null ? whole(full) : missing(part.digest, part.num_chars));
      right.append(short !== null ? whole(short) : missing(part.shown_digest, part.num_shown_chars));
    }
    return el("div", { class: "part changed" }, el("p", { class: "reason" }, reason(part)), el("div", { class: "sides" }, left, right));
  }

  function samePart(texts, part, title) {
    const text = textOf(texts, part.digest);
    const start = text === null ? "" : visible(text.slice(0, 400).replace(/\s+/g, " ").trim().slice(0, 110));
    const said = part.cut ? reason(part) : "";
    const box = el("details", { class: "part" }, el("summary", {}, title ? el("b", {}, visible(title), " ") : null, el("bdi", {}, start || "…"),
      el("span", { class: "quiet" }, ` ${part.type ? visible(part.type) : plural(part.num_chars || 0, "character")}${said ? `; ${said}` : ""}`)));
    const open = () => { if (box.childElementCount === 1) box.append(text === null ? missing(part.digest, part.num_chars) : whole(text)); };
    box.addEventListener("toggle", () => box.open && open());
    box.reveal = () => { open(); box.open = true; };
    return box;
  }

  function callBox(texts, call, row, number, jump) {
    const text = textOf(texts, call.digest);
    const target = jump.results.get(`${row},${number}`);
    return el("div", { class: "toolcall" }, el("p", {}, "calls ", el("b", {}, visible(call.name || "?")),
      target === undefined ? null : el("a", { href: `#message-${target}` }, " result ↓")),
      text === null ? missing(call.digest, call.num_chars) : whole(text));
  }

  function message(texts, one, row, messages, jump) {
    const changed = one.parts.some((part) => part.shown_digest) || one.is_left_out || one.is_added;
    const asked = one.result_of && messages[one.result_of[0]].calls ? messages[one.result_of[0]].calls[one.result_of[1]] : null;
    const title = one.role === "tools" ? "tools offered" : one.role;
    // A framework without call ids: a result belongs to the calls of its turn.
    const caller = !asked && one.kind === "result" ? messages.findIndex((other) => other.turn === one.turn && other.kind !== "result") : -1;
    const turn = one.turn ? ` · turn ${one.turn}` : "";
    const box = el("article", { class: `message${changed ? " changed" : ""}`, id: `message-${row}`, "aria-label": `${visible(title)}, message ${row + 1}` },
      el("h5", {}, visible(title), one.name ? ` (${visible(one.name)})` : "",
        turn, one.kind === "call" && !one.calls ? el("span", {}, "calls a tool") : null,
        caller >= 0 ? el("span", {}, " result of ", el("a", { href: `#message-${caller}` }, visible(one.tool || "its turn's calls"), " ↑")) : null,
        asked ? el("span", {}, " result of ", el("a", { href: `#message-${one.result_of[0]}` }, visible(asked.name || "call"), " ↑")) : null,
        el("span", { class: "badge" }, one.is_left_out ? "left out: a summary stands for it" : one.is_added ? "only in the compressed view" : changed ? "changed" : "same in both views")));
    for (const part of one.parts) box.append(part.shown_digest ? changedPart(texts, part) : samePart(texts, part, part.name));
    (one.calls || []).forEach((call, number) => box.append(callBox(texts, call, row, number, jump)));
    return box;
  }

  // All messages of a call, made as they come into sight.
  return (call, texts) => {
    const jump = { results: new Map() };
    call.messages.forEach((one, row) => { if (one.result_of) jump.results.set(one.result_of.join(","), row); });
    const box = el("div", { class: "messages" });
    const made = new Map();
    const fill = (slot) => {
      const row = Number(slot.dataset.row);
      if (!made.has(row)) {
        const node = message(texts, call.messages[row], row, call.messages, jump);
        made.set(row, node);
        slot.replaceWith(node);
      }
      return made.get(row);
    };
    const watcher = new IntersectionObserver((entries) => { for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); fill(entry.target); } }, { rootMargin: "800px" });
    const slots = call.messages.map((_, row) => {
      // The keyboard, too, finds what is not in sight yet.
      const slot = el("div", { class: "slot", "data-row": row, id: `message-${row}`, role: "group", tabindex: "0", "aria-label": `message ${row + 1}`,
        on: { focus: () => { const node = fill(slot); node.tabIndex = -1; (node.querySelector("summary, a, button") || node).focus(); } } });
      box.append(slot);
      watcher.observe(slot);
      return slot;
    });
    return { box, reveal: (row) => made.get(row) || fill(slots[row]) };
  };
})();
