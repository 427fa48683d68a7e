// The dashboard of a service.

import { make, draw, number, short } from "./charts.js";
import { LiveChart } from "./live_chart.js";
import { $, percent, signed, rate, counted, shown, bytes, duration, clock, timeTicks } from "./words.js";

const STATUS_SECONDS = 2;
const HISTORY_SECONDS = 5;
const PATIENCE_SECONDS = 8;
const PATIENCE_TO_SEND_SECONDS = 60; // an image takes its time
const KEY = "evenkeel-key";
const MANY_CLASSES = 12; // beyond that, a list alone gives no overview
const STATES = {
  learning: "learning",
  idle: "idle, waiting for examples",
  recovering: "recovering: replaying the examples learned since the last checkpoint",
  stopped: "stopped: it predicts, but does not learn",
};

// The server

class Refusal extends Error {
  constructor(status, message) {
    super(message);
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
      if (this.turn === turn) this.timer = setTimeout(turn, this.seconds * 1000); // otherwise it was stopped meanwhile
    };
    this.turn = turn;
    turn();
  }

  stop() {
    clearTimeout(this.timer);
    this.turn = null;
  }
}

const answeredLine = { field: "answered", name: "Answers", look: "first" };
const testedLine = { field: "accuracy", name: "Before learning", look: "second" };
const biasLine = { field: "recency_bias", name: "Bias", look: "first" };
const charts = [
  new LiveChart($("accuracy-chart"), [answeredLine, testedLine], percent, { isPercent: true }),
  new LiveChart($("bias-chart"), [biasLine], signed, { withZero: true }),
  new LiveChart($("queue-chart"), [{ field: "queue", name: "Waiting", look: "first" }], number, { fromZero: true }),
  new LiveChart($("rate-chart"), [{ field: "rate", name: "Examples/s", look: "first" }], rate, { fromZero: true }),
];
let points = [];

function showHistory() {
  const field = $("across").value;
  const title = ({ time, learned }, isLatest) => `${isLatest ? "latest" : clock(time)}, ${number(learned)} learned`;
  for (const chart of charts) chart.update(points, { field, title, ticks: field === "time" && timeTicks });
}

async function refreshHistory() {
  try {
    ({ points } = await call("history"));
    $("history-error").textContent = "";
    showHistory();
  } catch (error) {
    if (error.status) $("history-error").textContent = error.message; // 0 is out of reach, which the status reports already
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

/** At most two lines of a label; all of it in a tooltip. */
const clamped = (label) => make("span", { class: "clamped", title: shown(label) }, shown(label));

function showClasses() {
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
  $("overview").replaceChildren(...(classes.length > MANY_CLASSES ? [overview(ordered, most)] : []));
  showPointedAt(ordered);
  showKnownLabels();
}

function showPointedAt(ordered) {
  $("pointed").hidden = classes.length <= MANY_CLASSES;
  const each = ordered[pointedAt];
  const values = each && `${shown(each.label)}: ${number(each.learned)} in the stream, ${number(each.memory)} in memory`;
  setText("pointed", values ?? "Up: in the stream. Down: in memory. Point at a class for its numbers.");
}

function showKnownLabels() {
  const labels = JSON.stringify(classes.map(({ label }) => label));
  if (labels === labelsDrawn) return; // the list may be open
  labelsDrawn = labels;
  $("known-labels").replaceChildren(...classes.map(({ label }) => make("option", { value: String(label) })));
}

/** All classes at a glance: the stream upwards, memory downwards, each relative to its own maximum. */
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
    showPointedAt(ordered);
  });
  return svg;
}

// Status

let reachedAt = null;

/** If the journal cannot be opened, parts of the status are missing. */
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
    "answered-of": `${number(answered.right)} of ${number(answered.labelled)} in total`,
    tested: percent(tested.recent),
    "tested-of": `${number(tested.right)} of ${number(tested.tested)} in total`,
    bias: signed(status.recency_bias),
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
  $("main").hidden = false; // before anything is drawn: hidden elements have no width
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

function showTrouble(message) {
  $("trouble").hidden = !message;
  setText("trouble", message ?? "");
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
    if (error.status === 401) return; // the form asks for a key
    if (!(error instanceof Refusal)) console.error(error);
    document.body.classList.add("stale");
    $("state").className = "badge away";
    setText("state", error.status ? "refused" : "out of reach");
    const age = reachedAt ? ` The numbers below are from ${clock(reachedAt)}.` : "";
    showTrouble(`${error.message}${age} Trying again every ${STATUS_SECONDS} seconds.`);
  }
}

// Polling

const polls = [new Poll(STATUS_SECONDS, refreshStatus), new Poll(HISTORY_SECONDS, refreshHistory)];
const startPolls = () => polls.forEach((poll) => poll.start());
const stopPolls = () => polls.forEach((poll) => poll.stop());

function askForKey(message) {
  stopPolls();
  showTrouble(null);
  setText("key-error", message);
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

let trial = null; // the sample that was predicted last, and the id of the prediction

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
  if (sessionStorage.getItem(KEY)) lines.push("-H 'Authorization: Bearer KEY'"); // not the key itself: others may see the screen
  return [...lines, `-d '{${sample}, "label": "cat"}'`].join(" \\\n  ");
}

/** The numbers in a text: JSON, or anything separated by commas or spaces. Throws an error to be shown. */
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
  for (const id of ["try-error", "taught"]) setText(id, "");
  for (const id of ["teach", "again"]) $(id).hidden = true;
}

async function predict(sample) {
  const mine = (trial = { sample, id: null });
  clearTrial();
  setText("answer", "Predicting …");
  try {
    const { version, predictions: [prediction] } = await call("predict", { ...sample, top: 5 });
    if (trial !== mine) return; // another sample was sent meanwhile
    trial.id = prediction.id;
    showAnswer(version, prediction);
    offerTeaching("Correct?", "Another label", prediction);
  } catch (error) {
    if (trial !== mine) return;
    clearTrial();
    setText("try-error", error.message);
    if (error.status === 409) offerTeaching("Teach it", "Its label", null);
  }
}

function showAnswer(version, { label, probabilities }) {
  const verdict = make("p", { class: "verdict" }, make("strong", {}, shown(label)));
  const rows = probabilities.map(({ label, probability }) => {
    const share = make("span", { class: "count" }, percent(100 * probability));
    return make("li", {}, clamped(label), bar(probability), share);
  });
  const source = make("p", { class: "note" }, `Predicted by version ${number(version)}.`);
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
  setText("try-error", "");
  if (typeof label === "number" && !Number.isSafeInteger(label)) {
    setText("try-error", "This number is too large for a browser to represent exactly. Teach it through the API.");
    return;
  }
  setTeachable(false);
  try {
    if (mine.id === null) await call("learn", { ...mine.sample, label });
    else await call("label", { id: mine.id, label });
    if (trial !== mine) return;
    $("teach").hidden = true;
    $("again").hidden = false;
    setText("taught", `Taught: ${shown(label)}. It will be learned with the next batch.`);
    $("again").focus(); // the button that was pressed is gone
    polls[0].start();
  } catch (error) {
    if (trial === mine) setText("try-error", error.message);
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
  reader.addEventListener("error", () => setText("try-error", "The file cannot be read."));
  reader.readAsDataURL(file);
}

$("vector-form").addEventListener("submit", (event) => {
  event.preventDefault();
  try {
    predict({ x: vectorOf($("vector").value) });
  } catch (error) {
    trial = null;
    clearTrial();
    setText("try-error", error.message);
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
  $("answer").focus(); // this button disappears
  predict(trial.sample);
});
$("image").addEventListener("change", () => {
  chooseImage($("image").files[0]);
  $("image").value = ""; // the same file may be chosen again
});
const isOverDrop = (event) => !$("image-form").hidden && $("drop").contains(event.target);
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return; // text can still be dragged into fields
    event.preventDefault(); // elsewhere on the page a browser would leave it to open the file
    $("drop").classList.toggle("over", kind === "dragover" && isOverDrop(event));
    if (kind === "drop" && isOverDrop(event)) chooseImage(event.dataTransfer.files[0]);
  });
}
document.addEventListener("paste", (event) => {
  if (!$("image-form").hidden && event.clipboardData.files.length) chooseImage(event.clipboardData.files[0]);
});

showHistory();
if (!document.hidden) startPolls();
