// What a rendition kept of a text: lines (sentences, where lines are long) that stand in both, in order.
"use strict";
asymspec.diff = (() => {
  const LONG = 240;
  const MANY = 64; // a line that stands in a text this often anchors nothing

  function pieces(text) {
    const found = [];
    for (const line of text.match(/[^\n]*\n|[^\n]+$/g) || []) {
      if (line.length <= LONG) found.push(line);
      else found.push(...(line.match(/[^.!?,;]{1,200}[.!?,;]*\s*|[.!?,;]+\s*/g) || [line]));
    }
    return found;
  }

  const keyOf = (piece) => piece.trim();

  // Longest increasing sequence of right indices, over pairs of pieces that stand once in each text.
  function anchors(left, right) {
    const places = new Map();
    right.forEach((key, at) => places.set(key, places.has(key) ? -1 : at));
    const seen = new Map();
    left.forEach((key) => seen.set(key, (seen.get(key) || 0) + 1));
    const pairs = [];
    left.forEach((key, at) => {
      const other = places.get(key);
      if (key && other !== undefined && other >= 0 && seen.get(key) === 1) pairs.push([at, other]);
    });
    const tails = [];
    const previous = new Array(pairs.length).fill(-1);
    pairs.forEach(([, value], index) => {
      let low = 0, high = tails.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (pairs[tails[middle]][1] < value) low = middle + 1;
        else high = middle;
      }
      if (low > 0) previous[index] = tails[low - 1];
      tails[low] = index;
    });
    const chain = [];
    for (let at = tails.length ? tails[tails.length - 1] : -1; at >= 0; at = previous[at]) chain.push(pairs[at]);
    return chain.reverse();
  }

  // For each piece of the left text the index of its partner on the right, or -1.
  function match(left, right) {
    const partner = new Array(left.length).fill(-1);
    const between = (from, to, start, end) => {
      const places = new Map();
      for (let at = from; at < to; at++) {
        const list = places.get(left[at]) || [];
        if (list.length < MANY) list.push(at);
        places.set(left[at], list);
      }
      let next = from;
      for (let at = start; at < end; at++) {
        if (!right[at]) continue;
        const place = (places.get(right[at]) || []).find((candidate) => candidate >= next);
        if (place !== undefined) {
          partner[place] = at;
          next = place + 1;
        }
      }
    };
    let from = 0, start = 0;
    for (const [at, other] of [...anchors(left, right), [left.length, right.length]]) {
      between(from, at, start, other);
      if (at < left.length) partner[at] = other;
      from = at + 1;
      start = other + 1;
    }
    return partner;
  }

  function runs(parts, isKept) {
    const found = [];
    parts.forEach((text, at) => {
      const kept = isKept(at);
      const last = found[found.length - 1];
      if (last && (last.kept === kept || !text.trim())) last.texts.push(text); // a blank line goes with what it follows
      else found.push({ kept, texts: [text] });
    });
    return found.map((run) => ({ kept: run.kept, text: run.texts.join("") }));
  }

  // Both texts in runs of {kept, text}: what the rendition dropped on the left, what it wrote itself on the right.
  return (full, shown) => {
    const left = pieces(full), right = pieces(shown);
    const partner = match(left.map(keyOf), right.map(keyOf));
    const used = new Set(partner);
    return { full: runs(left, (at) => partner[at] >= 0), shown: runs(right, (at) => used.has(at)) };
  };
})();
