// The dashboard of a service. Labels are what people sent: they only ever enter the page as text, never as HTML.

const STATUS_SECONDS = 2;
const HISTORY_SECONDS = 5;
const PATIENCE_SECONDS = 8;
const PATIENCE_TO_SEND_SECONDS = 60; // an image takes its time
const KEY = "evenkeel-key";
const MANY_CLASSES = 12; // from here on a list alone gives no overview
const STATES = {
  learning: "learning",
  idle: "idle, waiting for examples",
  recovering: "recovering: learning again what was not in the last checkpoint",
  stopped: "stopped: it answers, but does not learn",
};

const $ = (id) => document.getElementById(id);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children); // text stays text
  return element;
}
const make = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Numbers as people read them

const number = (value, digits = 0) => value?.toLocaleString("en", { maximumFractionDigits: digits }) ?? "–";
const short = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 });
const percent = (value) => (value == null ? "–" : `${value.toFixed(1)} %`);
const rate = (value) => number(value, value < 10 ? 1 : 0);
const counted = (count, thing) => `${number(count)} ${thing}${count === 1 ? "" : "s"}`;
const shown = (label) => (label === "" ? "(empty text)" : String(label));

function bytes(count) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(count, 1)) / 3));
  return `${number(count / 1000 ** power, power ? 1 : 0)} ${units[power]}`;
}

function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

function clock(seconds, step = 1) {
  const day = { day: "numeric", month: "short" };
  const minute = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const style = step >= 86400 ? day : step >= 60 ? minute : { ...minute, second: "2-digit" };
  return new Date(seconds * 1000).toLocaleString("en-GB", style);
}

// The server

class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function call(path, body) {
  const headers = { "Content-Type": "application/json" };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  const patience = body ? PATIENCE_TO_SEND_SECONDS : PATIENCE_SECONDS;
  const request = { headers, cache: "no-store", signal: AbortSignal.timeout(patience * 1000) };
  if (body) Object.assign(request, { method: "POST", body: JSON.stringify(body) });
  const response = await fetch(`v1/${path}`, request).catch(() => {
    throw new Refusal(0, "The server cannot be reached.");
  });
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  const refusal = new Refusal(response.status, answer?.error ?? `The server answered with status ${response.status}.`);
  const isOurs = key === sessionStorage.getItem(KEY); // not one that was replaced while we waited
  if (response.status === 401 && isOurs) askForKey(key ? "The service does not know this key." : "");
  throw refusal;
}

class Poll {
  constructor(seconds, refresh) {
    this.seconds = seconds;
    this.refresh = refresh;
  }

  start() {
    this.stop();
    const turn = async () => {
      await this.refresh();
      if (this.turn === turn) this.timer = setTimeout(turn, this.seconds * 1000); // else it was stopped meanwhile
    };
    this.turn = turn;
    turn();
  }

  stop() {
    clearTimeout(this.timer);
    this.turn = null;
  }
}

// Charts

function ticksBetween(low, high, count, smallest = 0) {
  const rough = Math.max((high - low) / count, smallest, 1e-9);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factors = power >= 10 ? [1, 2, 2.5, 5, 10] : [1, 2, 5, 10]; // so that small ticks are whole numbers
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

class Chart {
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
    const x = Math.min(Math.max(this.x(at), Chart.margin.left), this.width - 24); // no half words at the edge
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
    this.readout.setAttribute("aria-live", "polite"); // only here: every refresh read aloud would be a torment
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

const answeredLine = { field: "answered", name: "Answered", look: "first" };
const testedLine = { field: "accuracy", name: "Before learning", look: "second" };
const biasLine = { field: "recency_bias", name: "Bias", look: "first" };
const noBias = "Nothing yet: no class is older";
const charts = [
  new Chart("accuracy-chart", [answeredLine, testedLine], percent, { isPercent: true }),
  new Chart("bias-chart", [biasLine], percent, { isPercent: true, fromZero: true, nothing: noBias }),
  new Chart("queue-chart", [{ field: "queue", name: "Waiting", look: "first" }], number, { fromZero: true }),
  new Chart("rate-chart", [{ field: "rate", name: "Examples/s", look: "first" }], rate, { fromZero: true }),
];
let points = [];

function showHistory() {
  for (const chart of charts) chart.show(points, $("across").value);
}

async function refreshHistory() {
  try {
    ({ points } = await call("history"));
    $("history-fault").textContent = "";
    showHistory();
  } catch (error) {
    if (error.status) $("history-fault").textContent = error.message; // out of reach: the status says so already
  }
}

// Classes

let classes = [];
let classesDrawn = "";
let labelsDrawn = "";
let pointedAt = null;

function inOrder(order) {
  if (order === "newest") return classes.toReversed();
  if (order === "learned") return classes.toSorted((a, b) => b.learned - a.learned);
  if (order === "memory") return classes.toSorted((a, b) => a.memory - b.memory);
  return classes;
}

function bar(share) {
  const filling = make("i");
  filling.style.width = `${100 * share}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, filling);
}

/** At most two lines of it; all of it where one points at it. */
const clamped = (label) => make("span", { class: "clamped", title: shown(label) }, shown(label));

function showClasses() {
  const now = JSON.stringify([$("order").value, classes]);
  if (now === classesDrawn) return; // keeps what somebody is selecting
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
  $("overview").replaceChildren(...(classes.length > MANY_CLASSES ? [overview(ordered, most)] : []));
  tellPointed(ordered);
  showKnownLabels();
}

function tellPointed(ordered) {
  $("pointed").hidden = classes.length <= MANY_CLASSES;
  const each = ordered[pointedAt];
  const values = each && `${shown(each.label)}: ${number(each.learned)} in the stream, ${number(each.memory)} in memory`;
  setText("pointed", values ?? "Stream upwards, memory downwards; point at a class.");
}

function showKnownLabels() {
  const labels = JSON.stringify(classes.map(({ label }) => label));
  if (labels === labelsDrawn) return; // the list may be open
  labelsDrawn = labels;
  $("known-labels").replaceChildren(...classes.map(({ label }) => make("option", { value: String(label) })));
}

/** All classes in one glance: the stream upwards, memory downwards, each against its own largest. */
function overview(ordered, most) {
  const [left, middle, half] = [40, 64, 56];
  const width = Math.max(200, $("overview").clientWidth);
  const each = (width - left) / ordered.length;
  const thick = Math.max(0.5, each - (each > 4 ? 1 : 0));
  const svg = draw("svg", { viewBox: `0 0 ${width} 128`, height: 128, "aria-hidden": "true" }); // the table says the same
  const label = (text, y) => svg.append(draw("text", { x: left - 6, y, "text-anchor": "end" }, text));
  label(short(most.learned), middle - half + 8);
  label("0", middle + 4);
  label(short(most.memory), middle + half);
  svg.append(draw("line", { class: "grid", x1: left, x2: width, y1: middle, y2: middle }));
  ordered.forEach(({ learned, memory }, place) => {
    const [x, up, down] = [left + place * each, (half * learned) / most.learned, (half * memory) / most.memory];
    svg.append(draw("rect", { class: "first", x, y: middle - up, width: thick, height: up }));
    svg.append(draw("rect", { class: "second", x, y: middle, width: thick, height: down }));
  });
  svg.addEventListener("pointermove", (event) => {
    pointedAt = Math.floor((event.clientX - svg.getBoundingClientRect().left - left) / each);
    tellPointed(ordered);
  });
  return svg;
}

// Status

let reachedAt = null;

/** Where the journal cannot be opened, the service knows less of itself, and parts are missing here. */
function showStatus(status) {
  const { examples = {}, accuracy = {}, queue = {}, memory = {}, checkpoint } = status;
  const { answered = {}, before_learning: tested = {} } = accuracy;
  const texts = {
    title: status.title,
    state: STATES[status.state] ?? status.state,
    version: `version ${number(status.version)}`,
    checkpoint: checkpoint ? `checkpoint ${number(checkpoint.version)}, ${duration(checkpoint.seconds)} ago` : "",
    uptime: `up ${duration(status.uptime)}`,
    answered: percent(answered.recent),
    "answered-of": `${number(answered.right)} of ${number(answered.labelled)} in all`,
    tested: percent(tested.recent),
    "tested-of": `${number(tested.right)} of ${number(tested.tested)} in all`,
    bias: percent(status.recency_bias),
    learned: number(examples.learned),
    "learned-of": learnedOf(examples),
    queue: number(queue.waiting),
    "queue-of": `waiting, limit ${number(queue.limit)}`,
    throughput: rate(status.throughput),
    memory: number(memory.samples),
    "memory-of": `samples, ${bytes(memory.bytes)}`,
    refusal: status.refusal ?? "",
  };
  for (const [id, text] of Object.entries(texts)) setText(id, text);
  $("state").className = `badge ${status.state}`;
  classes = status.classes ?? [];
  $("beginning").hidden = examples.learned !== 0;
  $("so-far").hidden = !examples.learned;
  $("tiles").hidden = !status.examples;
  document.title = `${status.title}, ${status.state} · Evenkeel`;
  $("main").hidden = false; // before anything is drawn: what is hidden has no width
  showClasses();
  prepareTrial(status.input);
}

function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

function learnedOf({ accepted, refused, withdrawn }) {
  const extras = [[refused, "refused"], [withdrawn, "withdrawn"]].filter(([count]) => count > 0);
  return [`of ${number(accepted)} accepted`, ...extras.map(([count, word]) => `${number(count)} ${word}`)].join(", ");
}

function showTrouble(sentence) {
  $("trouble").hidden = !sentence;
  setText("trouble", sentence ?? "");
}

async function refreshStatus() {
  try {
    const status = await call("status");
    reachedAt = Date.now() / 1000;
    document.body.classList.remove("stale");
    showTrouble(status.error);
    showStatus(status);
    $("key-form").hidden = true;
    $("forget-key").hidden = !sessionStorage.getItem(KEY);
  } catch (error) {
    if (error.status === 401) return; // the form asks
    if (!(error instanceof Refusal)) console.error(error);
    document.body.classList.add("stale");
    $("state").className = "badge away";
    setText("state", error.status ? "refused" : "out of reach");
    const age = reachedAt ? ` The numbers below are from ${clock(reachedAt)}.` : "";
    showTrouble(`${error.message}${age} Trying again every ${STATUS_SECONDS} seconds.`);
  }
}

// When to ask

const polls = [new Poll(STATUS_SECONDS, refreshStatus), new Poll(HISTORY_SECONDS, refreshHistory)];
const startPolls = () => polls.forEach((poll) => poll.start());
const stopPolls = () => polls.forEach((poll) => poll.stop());

function askForKey(sentence) {
  stopPolls();
  showTrouble(null);
  setText("key-fault", sentence);
  setText("state", "key needed");
  $("state").className = "badge";
  $("main").hidden = true;
  $("forget-key").hidden = true;
  if (!$("key-form").hidden) return;
  $("key-form").hidden = false;
  $("key").focus();
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("key").value.trim());
  $("key").value = "";
  startPolls();
});
$("forget-key").addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  startPolls();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stopPolls();
  else if ($("key-form").hidden) startPolls();
});
$("across").addEventListener("change", showHistory);
$("order").addEventListener("change", showClasses);
window.addEventListener("resize", () => {
  classesDrawn = "";
  showClasses();
});

// Try it

let trial = null; // the sample that was asked about last, and the id of the answer

function prepareTrial(input) {
  const isImage = input.kind === "image";
  $("vector-form").hidden = isImage;
  $("image-form").hidden = !isImage;
  const colours = input.channels === 1 ? "gray" : "colour";
  if (isImage) setText("image-size", `It is resized to ${input.size[1]} × ${input.size[0]}, ${colours}.`);
  else setText("features", counted(input.features, "number"));
  setText("command", commandFor(input));
}

/** A command line that teaches one example. */
function commandFor({ kind, features }) {
  const few = features <= 8 ? Array.from({ length: features }, (_, place) => place / 10) : `<${counted(features, "number")}>`;
  const sample = kind === "image" ? '"image": "<base64 of a PNG or JPEG>"' : `"x": [${few}]`;
  const lines = [`curl ${new URL("v1/learn", location).href}`, "-H 'Content-Type: application/json'"];
  if (sessionStorage.getItem(KEY)) lines.push("-H 'Authorization: Bearer KEY'"); // not the key itself: it may be seen
  return [...lines, `-d '{${sample}, "label": "cat"}'`].join(" \\\n  ");
}

/** Numbers of a text: JSON, or anything with commas or blanks between. Throws a sentence. */
function vectorOf(text) {
  const words = text.replace(/[[\]]/g, " ").split(/[\s,;]+/).filter(Boolean);
  const wrong = words.find((word) => !Number.isFinite(Number(word)));
  if (wrong !== undefined) throw new Error(`“${wrong.slice(0, 40)}” is not a number.`);
  if (!words.length) throw new Error("There is no number here yet.");
  return words.map(Number);
}

function labelOf(text) {
  const known = classes.map(({ label }) => label);
  const same = known.find((label) => String(label) === text) ?? known.find((label) => String(label) === text.trim());
  if (same !== undefined) return same; // with its type: 7 and "7" are different labels
  const areIntegers = known.length > 0 && known.every(Number.isInteger);
  return areIntegers && /^(0|-?[1-9]\d*)$/.test(text.trim()) ? Number(text) : text.trim();
}

function clearTrial() {
  $("answer").replaceChildren();
  for (const id of ["try-fault", "taught"]) setText(id, "");
  for (const id of ["teach", "again"]) $(id).hidden = true;
}

async function predict(sample) {
  const mine = (trial = { sample, id: null });
  clearTrial();
  setText("answer", "Asking …");
  try {
    const { version, predictions: [prediction] } = await call("predict", { ...sample, top: 5 });
    if (trial !== mine) return; // something else was asked meanwhile
    trial.id = prediction.id;
    showAnswer(version, prediction);
    offerTeaching("Correct?", "Another label", prediction);
  } catch (error) {
    if (trial !== mine) return;
    clearTrial();
    setText("try-fault", error.message);
    if (error.status === 409) offerTeaching("Teach it", "Its label", null);
  }
}

function showAnswer(version, { label, probabilities }) {
  const verdict = make("p", { class: "verdict" }, make("strong", {}, shown(label)));
  const rows = probabilities.map(({ label, probability }) => {
    const share = make("span", { class: "count" }, percent(100 * probability));
    return make("li", {}, clamped(label), bar(probability), share);
  });
  const source = make("p", { class: "note" }, `Answered by version ${number(version)}.`);
  $("answer").replaceChildren(verdict, make("ol", {}, ...rows), source);
}

function offerTeaching(question, labelName, prediction) {
  setText("teach-question", question);
  setText("label-name", labelName);
  $("label").value = "";
  const likely = prediction?.probabilities.map(({ label }) => label) ?? [];
  const others = likely.filter((label) => label !== prediction.label);
  const choice = (text, label, look) => {
    const button = make("button", { type: "button", class: look }, text);
    button.addEventListener("click", () => teach(label));
    return button;
  };
  const yes = prediction ? [choice(`Yes, ${shown(prediction.label)}`, prediction.label, "")] : [];
  $("choices").replaceChildren(...yes, ...others.map((label) => choice(`No, ${shown(label)}`, label, "quiet")));
  $("teach").hidden = false;
}

async function teach(label) {
  const mine = trial;
  setText("try-fault", "");
  if (typeof label === "number" && !Number.isSafeInteger(label)) {
    setText("try-fault", "This number is too large for a browser to repeat exactly. Teach it through the API.");
    return;
  }
  setTeachable(false);
  try {
    if (mine.id === null) await call("learn", { ...mine.sample, label });
    else await call("label", { id: mine.id, label });
    if (trial !== mine) return;
    $("teach").hidden = true;
    $("again").hidden = false;
    setText("taught", `Taught: ${shown(label)}. It is learned with the next batch.`);
    $("again").focus(); // the button that was pressed is gone
    polls[0].start();
  } catch (error) {
    if (trial === mine) setText("try-fault", error.message);
  } finally {
    setTeachable(true);
  }
}

function setTeachable(can) {
  for (const each of $("teach").querySelectorAll("button, input")) each.disabled = !can;
}

function chooseImage(file) {
  if (!file) return;
  URL.revokeObjectURL($("preview").src);
  $("preview").src = URL.createObjectURL(file);
  $("preview").hidden = false;
  const reader = new FileReader();
  reader.addEventListener("load", () => predict({ image: reader.result }));
  reader.addEventListener("error", () => setText("try-fault", "The file cannot be read."));
  reader.readAsDataURL(file);
}

$("vector-form").addEventListener("submit", (event) => {
  event.preventDefault();
  try {
    predict({ x: vectorOf($("vector").value) });
  } catch (error) {
    trial = null;
    clearTrial();
    setText("try-fault", error.message);
  }
});
$("vector").addEventListener("input", () => {
  try {
    setText("vector-count", counted(vectorOf($("vector").value).length, "number"));
  } catch (error) {
    setText("vector-count", error.message);
  }
});
$("teach").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("label").value.trim()) teach(labelOf($("label").value));
});
$("again").addEventListener("click", () => {
  $("answer").focus(); // this button goes
  predict(trial.sample);
});
$("image").addEventListener("change", () => {
  chooseImage($("image").files[0]);
  $("image").value = ""; // the same file may be chosen again
});
const isOverDrop = (event) => !$("image-form").hidden && $("drop").contains(event.target);
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return; // text is still dragged into fields
    event.preventDefault(); // beside the place a browser would leave the page for the file
    $("drop").classList.toggle("over", kind === "dragover" && isOverDrop(event));
    if (kind === "drop" && isOverDrop(event)) chooseImage(event.dataTransfer.files[0]);
  });
}
document.addEventListener("paste", (event) => {
  if (!$("image-form").hidden && event.clipboardData.files.length) chooseImage(event.clipboardData.files[0]);
});

showHistory();
if (!document.hidden) startPolls();
