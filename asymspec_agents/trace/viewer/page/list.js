// The list of calls: only the rows in sight are elements, so its length does not matter.
"use strict";
asymspec.list = (() => {
  const { el } = asymspec;
  const HEADING = 40;

  // Items are {heading} or {key, make, label}; `choose` is called with the key of the selected one.
  return (node, rowHeight, choose) => {
    let items = [], tops = [], total = 0, selected = null, frame = 0;
    const space = el("div", { class: "space", role: "none" });
    node.append(space);
    const rows = new Map();

    function draw() {
      frame = 0;
      const from = node.scrollTop - 400, to = node.scrollTop + (node.clientHeight || 800) + 400;
      let low = 0, high = items.length;
      while (low < high) { const middle = (low + high) >> 1; if (tops[middle + 1] <= from) low = middle + 1; else high = middle; }
      const wanted = new Set();
      for (let at = low; at < items.length && tops[at] < to; at++) wanted.add(at);
      for (const [at, row] of rows) if (!wanted.has(at)) { row.remove(); rows.delete(at); }
      for (const at of wanted) if (!rows.has(at)) { const row = make(at); rows.set(at, row); space.append(row); }
    }
    const later = () => { frame = frame || requestAnimationFrame(draw); };

    function make(at) {
      const item = items[at];
      const row = item.heading !== undefined
        ? el("div", { class: "heading", role: "presentation" }, el("bdi", {}, item.heading))
        : el("div", { class: "row", role: "option", id: `row-${item.key}`, "aria-label": item.label, "aria-setsize": item.size,
            "aria-posinset": item.position, "aria-selected": String(item.key === selected), on: { click: () => select(item.key) } }, item.make());
      row.style.top = `${tops[at]}px`;
      row.style.height = `${tops[at + 1] - tops[at]}px`;
      return row;
    }

    function set(given) {
      items = given;
      const options = items.filter((item) => item.heading === undefined);
      options.forEach((item, at) => { item.position = at + 1; item.size = options.length; });
      tops = [0];
      for (const item of items) tops.push(tops[tops.length - 1] + (item.heading !== undefined ? HEADING : rowHeight));
      total = tops[tops.length - 1];
      space.style.height = `${total}px`;
      for (const row of rows.values()) row.remove();
      rows.clear();
      draw();
    }

    function show(at) {
      if (tops[at] < node.scrollTop) node.scrollTop = at > 0 && items[at - 1].heading !== undefined ? tops[at - 1] : tops[at];
      else if (tops[at + 1] > node.scrollTop + node.clientHeight) node.scrollTop = tops[at + 1] - node.clientHeight;
    }

    function select(key) {
      const at = items.findIndex((item) => item.key === key && item.heading === undefined);
      selected = key;
      if (at >= 0) { show(at); draw(); }
      for (const [place, row] of rows) if (items[place].heading === undefined) row.setAttribute("aria-selected", String(items[place].key === key));
      if (at >= 0) node.setAttribute("aria-activedescendant", `row-${key}`);
      choose(key);
    }

    node.addEventListener("scroll", later, { passive: true });
    new ResizeObserver(later).observe(node);
    node.addEventListener("keydown", (event) => {
      const options = items.filter((item) => item.heading === undefined);
      const at = options.findIndex((item) => item.key === selected);
      const to = { ArrowDown: at + 1, ArrowUp: Math.max(0, at - 1), Home: 0, End: options.length - 1, PageDown: at + 8, PageUp: Math.max(0, at - 8) }[event.key];
      if (to === undefined || !options.length) {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); document.getElementById("call").focus(); }
        return;
      }
      event.preventDefault();
      select(options[Math.min(to, options.length - 1)].key);
    });
    return { set, select, selected: () => selected };
  };
})();
