// Elements by id, small elements, and numbers as people read them.

import { make, number } from "./charts.js";

export const $ = (id) => document.getElementById(id);
export const signed = (value) => (value == null ? "–" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`);
export const percent = (value) => (value == null ? "–" : `${value.toFixed(1)} %`);
export const rate = (value) => number(value, value < 10 ? 1 : 0);
export const counted = (count, thing) => `${number(count)} ${thing}${count === 1 ? "" : "s"}`;
export const shown = (label) => (label === "" ? "(empty text)" : String(label));

export function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

export function bar(share) {
  const filling = make("i");
  filling.style.width = `${100 * share}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, filling);
}

/** At most two lines of a label; all of it in a tooltip. */
export const clamped = (label) => make("span", { class: "clamped", title: shown(label) }, shown(label));

export function bytes(count) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(count, 1)) / 3));
  return `${number(count / 1000 ** power, power ? 1 : 0)} ${units[power]}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function clock(seconds, step = 1) {
  const day = { day: "numeric", month: "short" };
  const minute = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const style = step >= 86400 ? day : step >= 60 ? minute : { ...minute, second: "2-digit" };
  return new Date(seconds * 1000).toLocaleString("en-GB", style);
}

export function timeTicks(low, high, count) {
  const minutes = [1, 2, 5, 10, 15, 30].map((each) => each * 60);
  const hours = [1, 2, 3, 6, 12, 24, 48, 168, 720, 2160, 8760].map((each) => each * 3600);
  const steps = [1, 2, 5, 10, 15, 30, ...minutes, ...hours];
  const step = steps.find((each) => each * count >= high - low) ?? steps.at(-1);
  const zone = new Date(low * 1000).getTimezoneOffset() * 60; // midnight here, not in Greenwich
  const ticks = [];
  for (let at = Math.ceil((low - zone) / step) * step + zone; at <= high; at += step) ticks.push([at, clock(at, step)]);
  return ticks;
}
