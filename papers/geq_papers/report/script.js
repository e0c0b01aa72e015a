"use strict";

// Tables: a click on a heading, or Enter and Space on it, sorts; once more turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[table.tHead.rows.length - 1].cells);
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (button) button.addEventListener("click", () => sort(table, heads, head, column));
  });
}

function sort(table, heads, head, column) {
  const descending = head.getAttribute("aria-sort") === "ascending";
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, key: key(row.cells[column]) }));
  rows.sort((one, other) => {
    // What has no value stays at the end, whichever way the others go.
    if (one.key === null || other.key === null) return (one.key === null) - (other.key === null);
    const order = typeof one.key === "number" && typeof other.key === "number"
      ? one.key - other.key
      : String(one.key).localeCompare(String(other.key), "en", { numeric: true });
    return descending ? -order : order;
  });
  body.append(...rows.map((entry) => entry.row));
  for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
}

function key(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  if (text === "" || text === "–") return null;
  const value = Number(text);
  return Number.isNaN(value) ? text : value;
}

// Light, dark, or as the system has it. A page opened from a file may not be allowed to remember.
const themes = ["auto", "light", "dark"];
const toggle = document.getElementById("theme");

function remembered() {
  try { return localStorage.getItem("geq-theme"); } catch { return null; }
}

function choose(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  toggle.textContent = `Theme: ${theme}`;
  toggle.dataset.theme = theme;
  try { localStorage.setItem("geq-theme", theme); } catch { /* stays as it is for this visit */ }
}

choose(themes.includes(remembered()) ? remembered() : "auto");
toggle.hidden = false;
toggle.addEventListener("click", () => choose(themes[(themes.indexOf(toggle.dataset.theme) + 1) % themes.length]));

// Contents stay open beside the text on a wide screen, and folded above it on a narrow one.
const contents = document.querySelector("nav details");
if (contents && window.matchMedia("(max-width: 79.99rem)").matches) contents.open = false;
window.addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("main details")) folded.open = true;
});
