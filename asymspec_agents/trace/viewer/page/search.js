// Search over everything that was recorded; a hit is a call and a place in it.
"use strict";
asymspec.search = (() => {
  const MOST = 2000;

  function hitsOf(calls, texts, query) {
    const wanted = query.toLowerCase();
    const known = new Map();
    const has = (text) => typeof text === "string" && text.toLowerCase().includes(wanted);
    const digestHas = (digest) => {
      if (!digest || !Object.hasOwn(texts, digest)) return false;
      if (!known.has(digest)) known.set(digest, has(texts[digest]));
      return known.get(digest);
    };
    const hits = [];
    for (const call of calls) {
      if (hits.length >= MOST) break;
      if (has(call.answer)) hits.push({ call: call.number, place: "answer" });
      else if (has(call.id) || has(call.error)) hits.push({ call: call.number, place: "facts" });
      call.messages.forEach((one, row) => {
        one.parts.forEach((part, at) => {
          if (digestHas(part.digest) || digestHas(part.shown_digest) || has(part.name)) hits.push({ call: call.number, place: "part", row, at });
        });
        (one.calls || []).forEach((tool, at) => { if (digestHas(tool.digest) || has(tool.name)) hits.push({ call: call.number, place: "tool", row, at }); });
      });
    }
    return hits;
  }

  // Marks every place of the words in an element; returns the first range.
  function highlight(root, query) {
    const wanted = query.toLowerCase();
    const ranges = [];
    const nodes = [];
    let text = "";
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) { nodes.push([text.length, walker.currentNode]); text += walker.currentNode.data; }
    const lower = text.toLowerCase();
    if (lower.length !== text.length) return null; // a few letters change length: no places, the part is shown all the same
    const place = (offset) => {
      let low = 0, high = nodes.length - 1;
      while (low < high) { const middle = (low + high + 1) >> 1; if (nodes[middle][0] <= offset) low = middle; else high = middle - 1; }
      return [nodes[low][1], offset - nodes[low][0]];
    };
    for (let at = lower.indexOf(wanted); at >= 0 && ranges.length < 500; at = lower.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(...place(at));
      const [last, offset] = place(at + wanted.length - 1);
      range.setEnd(last, offset + 1);
      ranges.push(range);
    }
    if (window.CSS && CSS.highlights && window.Highlight) CSS.highlights.set("search", new Highlight(...ranges));
    return ranges[0] || null;
  }

  const clear = () => { if (window.CSS && CSS.highlights) CSS.highlights.delete("search"); };
  return { hitsOf, highlight, clear, MOST };
})();
