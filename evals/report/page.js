"use strict";
for (const part of document.querySelectorAll(".drill")) {
  const form = part.querySelector(".filter");
  if (!form) continue;
  const [left, relation, right] = form.querySelectorAll("select");
  const shown = form.querySelector("output");
  const samples = part.querySelectorAll(".sample");
  const apply = () => {
    let count = 0;
    for (const sample of samples) {
      const values = JSON.parse(sample.dataset.values);
      const a = values[left.value], b = values[right.value];
      const known = a !== null && b !== null;
      const fits = relation.value === "any"
        || (known && ((relation.value === "beats" && a > b) || (relation.value === "loses" && a < b)
          || (relation.value === "ties" && a === b)));
      sample.hidden = !fits;
      if (fits) count += 1;
    }
    shown.textContent = `${count} of ${samples.length} shown`;
  };
  for (const select of [left, relation, right]) select.addEventListener("change", apply);
  form.hidden = false;
  apply();
}
