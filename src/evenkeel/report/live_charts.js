// Charts that a page draws itself, again and again as data comes, and that are explored as those of a report.

import { Lines, draw, make, pointIn, short, styled, withLine } from "./charts.js";

function ticksBetween(low, high, count, smallest = 0) {
  const rough = Math.max((high - low) / count, smallest, 1e-9);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factors = power >= 10 ? [1, 2, 2.5, 5, 10] : [1, 2, 5, 10]; // so that small ticks are integers
  const step = power * factors.find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let place = Math.floor(low / step); place * step < high + step * 0.999; place++) ticks.push(place * step);
  return ticks;
}

const LOOKS = {
  first: { stroke: "var(--first, #0072b2)", strokeWidth: 2, fill: "none" },
  second: { stroke: "var(--second, #c24f00)", strokeWidth: 2, fill: "none", strokeDasharray: "5 2" },
  filledFirst: { fill: "var(--first, #0072b2)" },
  filledSecond: { fill: "var(--second, #c24f00)" },
  grid: { stroke: "var(--grid, #d3d9df)" },
  text: { fill: "var(--muted, #57616b)", fontSize: "11px" },
  nothing: { fill: "var(--muted, #57616b)", fontSize: "13px", textAnchor: "middle" },
};

const NOTHING = "Nothing yet";

/** A chart of points that is redrawn as they come. */
export class LiveChart extends Lines {
  static height = 168;
  static margin = { left: 40, right: 12, top: 8, bottom: 22 };

  constructor(figure, lines, format, { isPercent = false, fromZero = false, withZero = false, spread = 10 } = {}) {
    super(figure, draw("svg", { role: "img", height: LiveChart.height }), figure.querySelector("h3").textContent);
    Object.assign(this, { lines, format, isPercent, fromZero, withZero, spread, at: [] });
    figure.append(this.readout, this.svg);
    this.offerToSave();
    new ResizeObserver(() => this.redraw()).observe(figure);
  }

  /** across: the `field` of points that goes to the right, its `ticks`, and `title`, which names a point. */
  update(points, across) {
    const isKnown = points.some((point) => this.lines.some(({ field }) => point[field] != null));
    this.points = isKnown ? points : [];
    this.at = this.points.map((point) => point[across.field]);
    for (const line of this.lines) line.mean = this.points.map((point) => point[line.field]);
    this.axis = across;
    this.across = across.field;
    this.redraw();
  }

  redraw() {
    const { left, right, top, bottom } = LiveChart.margin;
    const size = this.svg.clientWidth || 300;
    this.svg.setAttribute("viewBox", `0 0 ${size} ${LiveChart.height}`);
    this.svg.replaceChildren();
    if (!this.places) return this.sayNothing(size);
    const ticks = this.valueTicks();
    const [first, last, low, high] = [Math.min(...this.at), Math.max(...this.at), ticks[0], ticks.at(-1)];
    this.box = [left, top, size - right, LiveChart.height - bottom];
    const [width, height] = [size - left - right, LiveChart.height - top - bottom];
    this.x = (at) => left + (last > first ? ((at - first) / (last - first)) * width : width / 2);
    this.y = (value) => top + height - ((value - low) / (high - low)) * height;
    for (const tick of ticks) this.drawValueTick(tick);
    for (const [at, text] of this.acrossTicks(first, last, Math.max(2, width / 90))) this.drawAcrossTick(at, text);
    for (const line of this.lines) this.drawLine(line);
    this.choose(this.chosen === null ? null : Math.min(this.chosen, this.places - 1));
  }

  add(look, tag, attributes, ...children) {
    this.svg.append(styled(draw(tag, attributes, ...children), LOOKS[look]));
  }

  sayNothing(width) {
    this.readout.replaceChildren();
    this.svg.setAttribute("aria-label", `${this.name}: ${NOTHING}`);
    this.add("nothing", "text", { x: width / 2, y: LiveChart.height / 2 }, NOTHING);
  }

  valueTicks() {
    const values = this.lines.flatMap((line) => line.mean).filter((value) => value != null);
    let [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
    if (this.fromZero) low = 0;
    if (this.withZero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    high = Math.max(high, low + this.spread);
    if (this.isPercent && high > 100) [low, high] = [Math.min(low, 100 - this.spread), 100];
    return ticksBetween(low, high, 4, this.isPercent ? 1 : 0);
  }

  acrossTicks(first, last, count) {
    if (this.axis.ticks) return this.axis.ticks(first, last, count);
    const inside = ticksBetween(first, last, count, 1).filter((tick) => tick >= first && tick <= last);
    return inside.map((tick) => [tick, short(tick)]);
  }

  drawValueTick(tick) {
    const [[left, , right], y] = [this.box, this.y(tick)];
    this.add("grid", "line", { x1: left, x2: right, y1: y, y2: y });
    this.add("text", "text", { x: left - 6, y: y + 4, "text-anchor": "end" }, short(tick) + (this.isPercent ? "%" : ""));
  }

  drawAcrossTick(at, text) {
    const x = Math.min(Math.max(this.x(at), this.box[0]), this.box[2] - 12); // so that no text is cut off at the edge
    this.add("text", "text", { x, y: LiveChart.height - 6, "text-anchor": "middle" }, text);
  }

  drawLine({ mean, look }) {
    let path = "";
    mean.forEach((value, place) => {
      if (value == null) return;
      const [before, after] = [mean[place - 1], mean[place + 1]];
      const [x, y] = [this.x(this.at[place]), this.y(value)];
      path += `${before == null ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
      if (before == null && after == null) this.add(look, "circle", { cx: x, cy: y, r: 1.5 });
    });
    this.add(look, "path", { d: path });
  }

  marks(place) {
    const known = this.lines.filter((line) => line.mean[place] != null);
    const dot = (line) => draw("circle", { cx: this.x(this.at[place]), cy: this.y(line.mean[place]), r: 3 });
    return [...super.marks(place), ...known.map((line) => styled(dot(line), LOOKS[line.look]))];
  }

  /** The readout has the newest values while none are chosen. */
  show(place) {
    if (!this.places) return;
    const point = place ?? this.places - 1;
    const values = this.lines.map((line) => `${line.name} ${this.format(line.mean[point])}`);
    const keys = this.lines.map((line, at) => withLine(values[at], LOOKS[line.look].stroke, line.look));
    const when = this.axis.title(this.points[point], place === null);
    this.readout.replaceChildren(...keys, make("span", { class: "when" }, when));
    this.svg.setAttribute("aria-label", `${this.name}: ${values.join(", ")}. Arrow keys show earlier values.`);
  }
}

/** Columns of two counts for each of many names: one upwards, one downwards, each relative to its own maximum. */
export function twoWayColumns(pairs, width, [mostUp, mostDown], onPointed) {
  const [left, middle, half] = [40, 64, 56];
  const each = (width - left) / pairs.length;
  const thick = Math.max(0.5, each - (each > 4 ? 1 : 0));
  const svg = draw("svg", { viewBox: `0 0 ${width} 128`, height: 128, "aria-hidden": "true" }); // a table says the same
  const add = (look, tag, attributes, ...children) => svg.append(styled(draw(tag, attributes, ...children), LOOKS[look]));
  const label = (text, y) => add("text", "text", { x: left - 6, y, "text-anchor": "end" }, text);
  label(short(mostUp), middle - half + 8);
  label("0", middle + 4);
  label(short(mostDown), middle + half);
  add("grid", "line", { x1: left, x2: width, y1: middle, y2: middle });
  pairs.forEach(([above, below], place) => {
    const [x, up, down] = [left + place * each, (half * above) / mostUp, (half * below) / mostDown];
    add("filledFirst", "rect", { x, y: middle - up, width: thick, height: up });
    add("filledSecond", "rect", { x, y: middle, width: thick, height: down });
  });
  svg.addEventListener("pointermove", (event) => onPointed(Math.floor((pointIn(svg, event).x - left) / each)));
  return svg;
}
