"use strict";
// Two recipes side by side. Each recipe's facts are a script of their own, so that the page works
// from a folder too, where a browser fetches no data.

const facts = {};
window.attuneRecipe = (key, values) => { facts[key] = values; };

function load(key) {
  if (facts[key]) return Promise.resolve(facts[key]);
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${key}.js`;
    script.onload = () => resolve(facts[key]);
    script.onerror = () => reject(new Error(key));
    document.head.append(script);
  });
}

function addRow(body, name, first, second) {
  const row = body.insertRow();
  if (first !== second) row.className = "changed";
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = name;
  row.append(head);
  for (const value of [first, second]) row.insertCell().textContent = value === undefined ? "-" : value;
}

async function compare() {
  const [a, b] = ["a", "b"].map((id) => document.getElementById(id).value);
  const state = document.getElementById("compare-state");
  const table = document.getElementById("compare-table");
  try {
    const [first, second] = await Promise.all([load(a), load(b)]);
    const body = table.tBodies[0];
    body.replaceChildren();
    const names = [...new Set([...Object.keys(first), ...Object.keys(second)])];
    for (const name of names) addRow(body, name, first[name], second[name]);
    const changed = body.querySelectorAll(".changed").length;
    state.textContent = changed ? `${changed} of ${names.length} fields differ.` : "Nothing differs.";
    table.hidden = false;
  } catch (error) {
    table.hidden = true;
    state.textContent = `${error.message} cannot be read; build the site again.`;
  }
}

const form = document.getElementById("compare-form");
const asked = new URLSearchParams(location.search);
form.hidden = false;
document.getElementById("scripts-off").hidden = true;
document.getElementById("b").replaceChildren(
  ...[...document.getElementById("a").options].map((option) => option.cloneNode(true)));
for (const id of ["a", "b"]) {
  const select = document.getElementById(id);
  if ([...select.options].some((option) => option.value === asked.get(id))) select.value = asked.get(id);
  else if (id === "b" && select.options.length > 1) select.selectedIndex = 1;
}
form.addEventListener("change", compare);
if (document.getElementById("a").options.length) compare();
