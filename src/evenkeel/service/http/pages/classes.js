// The classes of a service: a table, and if they are many, all of them at a glance.

import { make, number } from "./charts.js";
import { twoWayColumns } from "./live_charts.js";
import { $, bar, clamped, setText, shown } from "./words.js";

const MANY = 12; // beyond that, a list alone gives no overview

let classes = [];
let classesDrawn = "";
let labelsDrawn = "";
let pointedAt = null;

export const knownLabels = () => classes.map(({ label }) => label);

function inOrder(order) {
  if (order === "newest") return classes.toReversed();
  if (order === "learned") return classes.toSorted((a, b) => b.learned - a.learned);
  if (order === "memory") return classes.toSorted((a, b) => a.memory - b.memory);
  return classes;
}

export function showClasses(latest = classes) {
  classes = latest;
  const now = JSON.stringify([$("order").value, classes]);
  if (now === classesDrawn) return; // so that a selection is not lost
  classesDrawn = now;
  const ordered = inOrder($("order").value);
  const largest = (field) => Math.max(1, ...classes.map((each) => each[field]));
  const most = { learned: largest("learned"), memory: largest("memory") };
  const cell = (each, field, look) => {
    const count = make("span", { class: "count" }, number(each[field]));
    return make("td", { class: look }, make("div", {}, bar(each[field] / most[field]), count));
  };
  const row = (each) => {
    const name = make("th", { scope: "row" }, clamped(each.label));
    return make("tr", {}, name, cell(each, "learned", "stream"), cell(each, "memory", "memory"));
  };
  $("class-rows").replaceChildren(...ordered.map(row));
  setText("class-count", number(classes.length));
  $("classes").hidden = !classes.length;
  $("overview").replaceChildren(...(classes.length > MANY ? [overview(ordered, most)] : []));
  showPointedAt(ordered);
  showKnownLabels();
}

/** The stream upwards, memory downwards. */
function overview(ordered, most) {
  const pairs = ordered.map(({ learned, memory }) => [learned, memory]);
  return twoWayColumns(pairs, Math.max(200, $("overview").clientWidth), [most.learned, most.memory], (place) => {
    pointedAt = place;
    showPointedAt(ordered);
  });
}

function showPointedAt(ordered) {
  $("pointed").hidden = classes.length <= MANY;
  const each = ordered[pointedAt];
  const values = each && `${shown(each.label)}: ${number(each.learned)} in the stream, ${number(each.memory)} in memory`;
  setText("pointed", values ?? "Up: in the stream. Down: in memory. Point at a class for its numbers.");
}

function showKnownLabels() {
  const labels = JSON.stringify(knownLabels());
  if (labels === labelsDrawn) return; // the list may be open
  labelsDrawn = labels;
  $("known-labels").replaceChildren(...knownLabels().map((label) => make("option", { value: String(label) })));
}

$("order").addEventListener("change", () => showClasses());
window.addEventListener("resize", () => {
  classesDrawn = "";
  showClasses();
});
