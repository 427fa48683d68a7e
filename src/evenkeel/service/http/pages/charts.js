// Line charts over time, with axes and the values under the pointer.

import { $, make, draw, number, short, clock } from "./words.js";

function ticksBetween(low, high, count, smallest = 0) {
  const rough = Math.max((high - low) / count, smallest, 1e-9);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factors = power >= 10 ? [1, 2, 2.5, 5, 10] : [1, 2, 5, 10]; // so that small ticks are integers
  const step = power * factors.find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let place = Math.floor(low / step); place * step < high + step * 0.999; place++) ticks.push(place * step);
  return ticks;
}

function timeTicks(low, high, count) {
  const minutes = [1, 2, 5, 10, 15, 30].map((each) => each * 60);
  const hours = [1, 2, 3, 6, 12, 24, 48, 168, 720, 2160, 8760].map((each) => each * 3600);
  const steps = [1, 2, 5, 10, 15, 30, ...minutes, ...hours];
  const step = steps.find((each) => each * count >= high - low) ?? steps.at(-1);
  const zone = new Date(low * 1000).getTimezoneOffset() * 60; // midnight here, not in Greenwich
  const ticks = [];
  for (let at = Math.ceil((low - zone) / step) * step + zone; at <= high; at += step) ticks.push([at, clock(at, step)]);
  return ticks;
}

export class Chart {
  static height = 168;
  static margin = { left: 40, right: 12, top: 8, bottom: 22 };

  constructor(id, lines, format, { isPercent = false, fromZero = false, spread = 10, nothing = "Nothing yet" } = {}) {
    Object.assign(this, { lines, format, isPercent, fromZero, spread, nothing, points: [], across: "time", chosen: null });
    this.readout = make("p", { class: "readout" });
    this.svg = draw("svg", { role: "img", tabindex: 0, height: Chart.height });
    this.name = $(id).querySelector("h3").textContent;
    $(id).append(this.readout, this.svg);
    this.svg.addEventListener("pointermove", (event) => this.choose(this.nearest(event.clientX)));
    this.svg.addEventListener("pointerleave", () => this.choose(null));
    this.svg.addEventListener("blur", () => this.choose(null));
    this.svg.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.redraw()).observe($(id));
  }

  show(points, across) {
    this.across = across;
    this.points = points.some((point) => this.lines.some(({ field }) => point[field] != null)) ? points : [];
    this.redraw();
  }

  redraw() {
    const { left, right, top, bottom } = Chart.margin;
    this.width = this.svg.clientWidth || 300;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${Chart.height}`);
    this.svg.replaceChildren();
    if (!this.points.length) return this.sayNothing();
    const xs = this.points.map((point) => point[this.across]);
    const [first, last] = [Math.min(...xs), Math.max(...xs)];
    const ticks = this.valueTicks();
    const [low, high] = [ticks[0], ticks.at(-1)];
    const width = this.width - left - right;
    const height = Chart.height - top - bottom;
    this.x = (at) => left + (last > first ? ((at - first) / (last - first)) * width : width / 2);
    this.y = (value) => top + height - ((value - low) / (high - low)) * height;
    for (const tick of ticks) this.drawValueTick(tick);
    for (const [at, text] of this.acrossTicks(first, last, Math.max(2, width / 90))) this.drawAcrossTick(at, text);
    for (const line of this.lines) this.drawLine(line);
    this.cursor = this.svg.appendChild(draw("g"));
    this.choose(this.chosen);
  }

  sayNothing() {
    this.readout.replaceChildren();
    this.svg.setAttribute("aria-label", `${this.name}: ${this.nothing}`);
    this.svg.append(draw("text", { class: "nothing", x: this.width / 2, y: Chart.height / 2 }, this.nothing));
  }

  valueTicks() {
    const values = this.points.flatMap((point) => this.lines.map((line) => point[line.field])).filter((v) => v != null);
    let [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
    if (this.fromZero) low = 0;
    high = Math.max(high, low + this.spread);
    if (this.isPercent && high > 100) [low, high] = [Math.min(low, 100 - this.spread), 100];
    return ticksBetween(low, high, 4, this.isPercent ? 1 : 0);
  }

  acrossTicks(first, last, count) {
    if (this.across === "time") return timeTicks(first, last, count);
    const inside = ticksBetween(first, last, count, 1).filter((tick) => tick >= first && tick <= last);
    return inside.map((tick) => [tick, short(tick)]);
  }

  drawValueTick(tick) {
    const y = this.y(tick);
    const end = this.width - Chart.margin.right;
    const text = short(tick) + (this.isPercent ? "%" : "");
    this.svg.append(draw("line", { class: "grid", x1: Chart.margin.left, x2: end, y1: y, y2: y }));
    this.svg.append(draw("text", { x: Chart.margin.left - 6, y: y + 4, "text-anchor": "end" }, text));
  }

  drawAcrossTick(at, text) {
    const x = Math.min(Math.max(this.x(at), Chart.margin.left), this.width - 24); // so that no text is cut off at the edge
    this.svg.append(draw("text", { x, y: Chart.height - 6, "text-anchor": "middle" }, text));
  }

  drawLine({ field, look }) {
    let path = "";
    this.points.forEach((point, place) => {
      if (point[field] == null) return;
      const [before, after] = [this.points[place - 1]?.[field], this.points[place + 1]?.[field]];
      const [x, y] = [this.x(point[this.across]), this.y(point[field])];
      path += `${before == null ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
      if (before == null && after == null) this.svg.append(draw("circle", { class: look, cx: x, cy: y, r: 2.5 }));
    });
    this.svg.append(draw("path", { class: look, d: path }));
  }

  nearest(clientX) {
    if (!this.points.length) return null;
    const x = clientX - this.svg.getBoundingClientRect().left;
    const distances = this.points.map((point) => Math.abs(this.x(point[this.across]) - x));
    return distances.indexOf(Math.min(...distances));
  }

  step(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!move || !this.points.length) return;
    event.preventDefault();
    this.choose((this.chosen ?? this.points.length - 1) + move);
    this.readout.setAttribute("aria-live", "polite"); // only here: a screen reader must not read every refresh aloud
  }

  choose(place) {
    if (!this.points.length) return;
    const end = this.points.length - 1;
    this.chosen = place === null ? null : Math.min(Math.max(place, 0), end);
    const point = this.points[this.chosen ?? end];
    this.cursor.replaceChildren(...(this.chosen === null ? [] : this.marks(point)));
    const values = this.lines.map(({ field, name }) => `${name} ${this.format(point[field])}`);
    const when = `${this.chosen === null ? "latest" : clock(point.time)}, ${number(point.learned)} learned`;
    const keys = this.lines.map(({ look }, at) => make("span", { class: `key ${look}` }, values[at]));
    this.readout.replaceChildren(...keys, make("span", { class: "when" }, when));
    if (this.chosen === null) this.readout.removeAttribute("aria-live");
    this.svg.setAttribute("aria-label", `${this.name}: ${values.join(", ")}. Arrow keys show earlier values.`);
  }

  marks(point) {
    const x = this.x(point[this.across]);
    const line = draw("line", { class: "cursor", x1: x, x2: x, y1: Chart.margin.top, y2: Chart.height - Chart.margin.bottom });
    const known = this.lines.filter(({ field }) => point[field] != null);
    return [line, ...known.map(({ field, look }) => draw("circle", { class: look, cx: x, cy: this.y(point[field]), r: 4 }))];
  }
}
