// Try it: predict a sample of one's own, and teach it.

import { make, number } from "./charts.js";
import { knownLabels } from "./classes.js";
import { announce, call, keyOf } from "./server.js";
import { $, bar, clamped, counted, percent, setText, shown } from "./words.js";

let trial = null; // the sample that was predicted last, and the id of the prediction

export function prepareTrial(input) {
  for (const kind of ["vector", "image", "text"]) $(`${kind}-form`).hidden = input.kind !== kind;
  const colours = input.channels === 1 ? "gray" : "colour";
  if (input.kind === "image") setText("image-size", `It is resized to ${input.size[1]} × ${input.size[0]}, ${colours}.`);
  if (input.kind === "vector") setText("features", counted(input.features, "number"));
  setText("command", commandFor(input));
}

/** A command line that teaches one example. */
function commandFor({ kind, features }) {
  const few = features <= 8 ? Array.from({ length: features }, (_, place) => place / 10) : `<${counted(features, "number")}>`;
  const samples = { image: '"image": "<base64 of a PNG or JPEG>"', text: '"text": "What does the cat say?"', vector: `"x": [${few}]` };
  const lines = [`curl ${new URL("v1/learn", location).href}`, "-H 'Content-Type: application/json'"];
  if (keyOf()) lines.push("-H 'Authorization: Bearer KEY'"); // not the key itself: others may see the screen
  return [...lines, `-d '{${samples[kind]}, "label": "cat"}'`].join(" \\\n  ");
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
  const known = knownLabels();
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
    announce("taught");
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
$("text-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("text").value.trim()) predict({ text: $("text").value });
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
