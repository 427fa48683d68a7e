// Charts that can be explored: values under the pointer or by arrow keys, lines that can be hidden, pictures saved as
// SVG and their numbers as CSV. A report brings its pictures drawn (`exploreAll`); live_charts.js draws those of a dashboard.
// Names come from users: they only ever enter a page as text, never as HTML.

export function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children); // text stays text
  return element;
}
export const make = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export const number = (value, digits = 0) => value?.toLocaleString("en", { maximumFractionDigits: digits }) ?? "–";
export const short = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 });

// Files

function save(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const fileName = (title) => title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "chart";

function csv(rows) {
  const field = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return rows.map((row) => row.map(field).join(",") + "\n").join("");
}

/** The picture as a file of its own: in light colours, because the variables of the page are not defined there. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const [, , width, height] = copy.getAttribute("viewBox").split(" ");
  for (const each of copy.querySelectorAll(".cursor, .off:not(.key)")) each.remove();
  const root = { xmlns: "http://www.w3.org/2000/svg", width, height, "font-family": "sans-serif", "stroke-linejoin": "round" };
  filled(copy, root, []);
  for (const name of ["class", "tabindex"]) copy.removeAttribute(name);
  return new XMLSerializer().serializeToString(copy).replace(/var\(--[\w-]+, ?(#\w+)\)/g, "$1");
}

// Exploring

/** Where an event is in the units of a picture, however large it is shown. */
export function pointIn(svg, event) {
  return new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
}

/** A picture with a readout. Subclasses know where its values are. */
class Explorable {
  constructor(holder, svg, name) {
    Object.assign(this, { holder, svg, name, chosen: null, readout: make("p", { class: "readout" }) });
    svg.setAttribute("tabindex", 0);
    svg.addEventListener("pointermove", (event) => this.choose(this.nearest(pointIn(this.svg, event))));
    svg.addEventListener("pointerleave", () => this.choose(null));
    svg.addEventListener("blur", () => this.choose(null));
    svg.addEventListener("keydown", (event) => this.move(event));
  }

  offerToSave() {
    const button = (what, content) => {
      const each = make("button", { type: "button", "aria-label": `Save ${this.name} as ${what}` }, what);
      each.addEventListener("click", () => save(`${fileName(this.name)}.${what.toLowerCase()}`, ...content()));
      return each;
    };
    const picture = button("SVG", () => ["image/svg+xml", standalone(this.svg)]);
    const numbers = button("CSV", () => ["text/csv", csv(this.rows())]);
    this.foot.append(make("p", { class: "save" }, "Save ", picture, numbers));
  }

  /** What is below the picture, in one row. */
  get foot() {
    return (this.below ??= this.holder.appendChild(make("div", { class: "foot" })));
  }

  move(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity };
    if (event.target !== this.svg || !steps[event.key] || !this.places) return;
    event.preventDefault();
    this.choose(Math.min(Math.max((this.chosen ?? this.places - 1) + steps[event.key], 0), this.places - 1));
    this.readout.setAttribute("aria-live", "polite"); // only here: a screen reader must not read every change aloud
  }

  /** Show the values at a place, or none. */
  choose(place) {
    this.chosen = place;
    this.cursor?.remove();
    if (place !== null) this.svg.append((this.cursor = draw("g", { class: "cursor" }, ...this.marks(place))));
    else this.readout.removeAttribute("aria-live");
    this.show(place);
  }
}

const IS_TOUCHED = matchMedia("(pointer: coarse)").matches;
const CURSOR = { stroke: "var(--muted, #57616b)", strokeWidth: 1, fill: "none" };

export function styled(element, style) {
  Object.assign(element.style, style); // not as an attribute, which the policy of the dashboard forbids
  return element;
}

export function withLine(text, colour, look = "") {
  const key = make("span", { class: `key ${look}` }, text);
  key.style.setProperty("--line", colour);
  return key;
}

/** Lines or bars: a value, maybe with an interval, of each line at each place. */
export class Lines extends Explorable {
  get places() {
    return this.at.length;
  }

  get visible() {
    return this.lines.filter((line) => !line.isHidden);
  }

  nearest(point) {
    if (!this.places) return null;
    const away = this.at.map((at) => Math.abs(this.sideways ? this.y(at) - point.y : this.x(at) - point.x));
    return away.indexOf(Math.min(...away));
  }

  marks(place) {
    const [left, top, right, bottom] = this.box;
    const at = this.sideways ? this.y(this.at[place]) : this.x(this.at[place]);
    const ends = this.sideways ? { x1: left, x2: right, y1: at, y2: at } : { x1: at, x2: at, y1: top, y2: bottom };
    return [styled(draw("line", ends), CURSOR)];
  }

  title(place) {
    return `${this.across} ${this.names?.[place] ?? number(this.at[place])}`.trim();
  }

  value(line, place) {
    const text = (value) => `${this.signed && value > 0 ? "+" : ""}${value.toFixed(Math.abs(value) < 10 ? 2 : 1)}`;
    if (line.mean[place] == null) return "–";
    const ends = line.low?.[place] == null ? "" : ` (${text(line.low[place])} to ${text(line.high[place])})`;
    return text(line.mean[place]) + ends;
  }

  rows() {
    const numbers = (line) => ["mean", "low", "high"].filter((name) => line[name]);
    const heads = this.visible.flatMap((line) => numbers(line).map((name) => (name === "mean" ? line.name : `${line.name}, ${name}`)));
    const values = (place) => this.visible.flatMap((line) => numbers(line).map((name) => line[name][place]));
    return [[this.across || "name", ...heads], ...this.at.map((at, place) => [this.names?.[place] ?? at, ...values(place)])];
  }
}

/** A chart of a report, which is already drawn: its legend hides lines. */
class DrawnLines extends Lines {
  constructor(holder, svg, name, values) {
    super(holder, svg, name);
    Object.assign(this, values);
    const [left, top, right, bottom] = this.box;
    const scale = ([low, high], from, to) => (value) => from + ((value - low) / (high - low)) * (to - from);
    this.x = scale(values.x, left, right);
    this.y = scale(values.y, bottom, top);
    this.lines.forEach((line, place) => this.offerToHide(line, place));
  }

  offerToHide(line, place) {
    line.canHide = this.lines.length > 1 && this.svg.querySelector(`.series-${place}`) !== null;
    if (!line.canHide) return;
    const entries = [...this.svg.querySelectorAll(`.key-${place}`)];
    for (const entry of entries) {
      entry.classList.add("key");
      entry.append(draw("title", {}, "Hide or show; with Shift, show only this one"));
      entry.addEventListener("click", (event) => this.toggle(place, event.shiftKey));
    }
    // The entries are too small for a finger, which gets buttons instead.
    line.button = IS_TOUCHED ? this.buttonFor(line, place) : entries.at(-1);
    filled(line.button, { role: "button", tabindex: 0, "aria-pressed": "true", "aria-label": `Show ${line.name}` }, []);
    line.button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.toggle(place, event.shiftKey);
    });
  }

  buttonFor(line, place) {
    this.keys ??= this.foot.appendChild(make("details", { class: "keys" }, make("summary", {}, "Hide or show")));
    const button = make("button", { type: "button" }, withLine(line.name, line.colour));
    button.addEventListener("click", () => this.toggle(place));
    this.keys.append(button);
    return button;
  }

  toggle(chosen, alone) {
    this.lines.forEach((line, place) => {
      if (!line.canHide) return; // a reference line, which has nothing to compare it with
      if (alone) line.isHidden = place !== chosen;
      else if (place === chosen) line.isHidden = !line.isHidden;
      for (const each of this.svg.querySelectorAll(`.series-${place}, .key-${place}`)) each.classList.toggle("off", line.isHidden === true);
      line.button.setAttribute("aria-pressed", String(!line.isHidden));
    });
  }

  show(place) {
    this.readout.hidden = place === null;
    if (place === null) return;
    const [left, , right] = this.box;
    this.readout.classList.toggle("at-left", !this.sideways && this.x(this.at[place]) > (left + right) / 2);
    const values = this.visible.map((line) => {
      const shown = this.lines.length > 1 ? `${line.name} ${this.value(line, place)}` : this.value(line, place);
      return withLine(shown, line.colour);
    });
    this.readout.replaceChildren(make("strong", {}, this.title(place)), ...values);
  }
}

/** A heat map of a report. Its places are its cells, row by row. */
class Matrix extends Explorable {
  constructor(holder, svg, name, values) {
    super(holder, svg, name);
    Object.assign(this, values);
  }

  get places() {
    return this.rowCount * this.columnCount;
  }

  get rowCount() {
    return this.cells.length;
  }

  get columnCount() {
    return this.cells[0].length;
  }

  get cellSize() {
    const [left, top, right, bottom] = this.box;
    return [(right - left) / this.columnCount, (bottom - top) / this.rowCount];
  }

  nearest({ x, y }) {
    const [left, top] = this.box;
    const [width, height] = this.cellSize;
    const [row, column] = [Math.floor((y - top) / height), Math.floor((x - left) / width)];
    const isInside = row >= 0 && column >= 0 && row < this.rowCount && column < this.columnCount;
    return isInside ? row * this.columnCount + column : null;
  }

  marks(place) {
    const [width, height] = this.cellSize;
    const [row, column] = this.cellAt(place);
    const corner = { x: this.box[0] + column * width, y: this.box[1] + row * height };
    return [styled(draw("rect", { ...corner, width, height }), { ...CURSOR, stroke: "var(--ink, #1c2126)", strokeWidth: 1.2 })];
  }

  cellAt(place) {
    return [Math.floor(place / this.columnCount), place % this.columnCount];
  }

  show(place) {
    this.readout.hidden = place === null;
    if (place === null) return;
    const [row, column] = this.cellAt(place);
    this.readout.classList.toggle("at-left", column > this.columnCount / 2);
    const where = [`${this.row} ${this.row_names[row]}`.trim(), `${this.column} ${this.columns[column]}`.trim()];
    this.readout.replaceChildren(make("span", {}, where.join(", ")), make("strong", {}, this.cells[row][column].toFixed(1)));
  }

  rows() {
    return [["", ...this.columns], ...this.cells.map((cells, row) => [this.row_names[row], ...cells])];
  }
}

/** Make all charts of a report explorable. */
export function exploreAll() {
  for (const holder of document.querySelectorAll(".chart[data-values]")) {
    const [svg, values] = [holder.querySelector("svg"), JSON.parse(holder.dataset.values)];
    const chart = new (values.cells ? Matrix : DrawnLines)(holder, svg, svg.getAttribute("aria-label"), values);
    chart.readout.hidden = true;
    svg.after(chart.readout);
    chart.offerToSave();
  }
}
