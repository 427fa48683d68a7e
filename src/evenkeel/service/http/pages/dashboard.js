// The dashboard of a service.

import { number } from "./charts.js";
import { showClasses } from "./classes.js";
import { LiveChart } from "./live_charts.js";
import { Poll, Refusal, call, forgetKey, keyOf, useKey } from "./server.js";
import { prepareTrial } from "./trial.js";
import { $, bytes, clock, duration, percent, rate, setText, signed, timeTicks } from "./words.js";

const STATUS_SECONDS = 2;
const HISTORY_SECONDS = 5;
const STATES = {
  learning: "learning",
  idle: "idle, waiting for examples",
  recovering: "recovering: replaying the examples learned since the last checkpoint",
  stopped: "stopped: it predicts, but does not learn",
};

// History

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
  $("beginning").hidden = examples.learned !== 0;
  $("so-far").hidden = !examples.learned;
  $("tiles").hidden = !status.examples;
  document.title = `${status.title}, ${status.state} · Evenkeel`;
  $("main").hidden = false; // before anything is drawn: hidden elements have no width
  showClasses(status.classes ?? []);
  prepareTrial(status.input);
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
    $("forget-key").hidden = !keyOf();
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

document.addEventListener("key-needed", ({ detail }) => askForKey(detail));
document.addEventListener("taught", () => polls[0].start());
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey($("key").value.trim());
  $("key").value = "";
  startPolls();
});
$("forget-key").addEventListener("click", () => {
  forgetKey();
  startPolls();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stopPolls();
  else if ($("key-form").hidden) startPolls();
});
$("across").addEventListener("change", showHistory);

showHistory();
if (!document.hidden) startPolls();
