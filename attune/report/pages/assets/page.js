"use strict";
// What a page does beside being read: theme, sorting, filtering, copying, ticking two recipes.
// Everything here is an addition: with scripts off the page says the same.

function remembered(value) {
  try {
    if (value === undefined) return localStorage.getItem("attune-theme");
    localStorage.setItem("attune-theme", value);
  } catch (error) { /* storage is closed to pages opened from a file in some browsers */ }
  return null;
}

function setUpTheme() {
  const root = document.documentElement;
  const button = document.querySelector("button.theme");
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const known = remembered();
  if (known === "dark" || known === "light") root.dataset.theme = known;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remembered(root.dataset.theme);
    document.dispatchEvent(new CustomEvent("themechange", { detail: root.dataset.theme }));
  });
}

function sortValue(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text.replace(/[,$]/g, ""));
  return /^[-+$]?[\d.,]+/.test(text) && !Number.isNaN(number) ? number : text;
}

function compareValues(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, "en", { numeric: true });
}

function sortBy(table, header) {
  const column = header.cellIndex;
  const descending = header.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compareValues(sortValue(a, column), sortValue(b, column)) * (descending ? -1 : 1));
  table.tBodies[0].append(...rows);
}

function setUpSorting(table) {
  for (const header of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sortBy(table, header));
  }
}

function setUpFilter(input) {
  const table = document.getElementById(input.dataset.table);
  input.hidden = false;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}

async function copyText(text) {
  if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function setUpCopy(button) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await copyText(button.parentElement.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

function setUpTicks() {
  const link = document.querySelector(".compare-link");
  if (!link) return;
  const boxes = [...document.querySelectorAll("input.compare")];
  const target = link.getAttribute("href");
  for (const box of boxes) {
    box.closest("label").hidden = false;
    box.addEventListener("change", () => {
      const ticked = boxes.filter((other) => other.checked);
      link.hidden = ticked.length !== 2;
      const [a, b] = ticked.map((other) => encodeURIComponent(other.value));
      link.href = `${target}?a=${a}&b=${b}`;
    });
  }
}

// A closed table would be missing on paper.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});

setUpTheme();
document.querySelectorAll("table.sortable").forEach(setUpSorting);
document.querySelectorAll("input.filter").forEach(setUpFilter);
document.querySelectorAll("button.copy").forEach(setUpCopy);
setUpTicks();
