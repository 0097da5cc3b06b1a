// Elements and texts. Data become text nodes only, whatever they hold.
"use strict";
const asymspec = (() => {
  const BIDI = /[\u202A-\u202E\u2066-\u2069\u200E\u200F\u061C]/g;
  const CONTROL = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\uFEFF]/g;
  // Soft hyphens, zero-width characters (those aside that join letters and emoji), tags and variation selectors that can spell hidden text.
  const HIDDEN = /[\u00AD\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B\u2028\u2029\u2060-\u2065\u206A-\u206F\u3164\uFE00-\uFE0D\uFFA0\uFFF0-\uFFFB\u{E0000}-\u{E0FFF}]/gu;
  const codeOf = (c) => `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;

  // The text with characters that cannot be seen, or that reorder others, in a form that can.
  function visible(text) {
    return String(text)
      .replace(BIDI, codeOf)
      .replace(HIDDEN, codeOf)
      .replace(CONTROL, (c) => {
        const code = c.charCodeAt(0);
        if (code < 32) return String.fromCharCode(0x2400 + code);
        return code === 127 ? "\u2421" : codeOf(c);
      });
  }

  function el(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
      else if (name === "width") element.style.width = value;
      else element.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
    return element;
  }

  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
  const percent = (x) => (x === null || x === undefined ? "–" : `${(100 * x).toFixed(x > 0 && x < 0.01 ? 2 : 0)}%`);
  const probability = (x) =>
    x === null || x === undefined ? "–" : x === 0 ? "0" : x < 0.001 ? x.toExponential(1) : x.toFixed(3);
  const seconds = (s) =>
    s === null || s === undefined ? "–" : s < 0.001 ? "<1 ms" : s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(s < 10 ? 2 : 1)} s`;
  const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || `${one}s`}`;

  // A token as it can be read: its spaces shown where they are all there is.
  function shown(text) {
    if (text === null || text === undefined) return "?";
    if (text === "") return "(no text)";
    const seen = visible(text).replace(/\n/g, "↵").replace(/\t/g, "⇥");
    return seen.trim() === "" ? seen.replace(/ /g, "␣") : seen;
  }

  function say(text) {
    document.getElementById("live").textContent = text;
  }

  const data = JSON.parse(document.getElementById("data").textContent);
  return { data, visible, el, count, percent, probability, seconds, plural, shown, say };
})();
