// Elements and numbers. Labels come from clients: they only ever enter the page as text, never as HTML.

export const $ = (id) => document.getElementById(id);

export function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children); // text stays text
  return element;
}
export const make = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Numbers as people read them

export const number = (value, digits = 0) => value?.toLocaleString("en", { maximumFractionDigits: digits }) ?? "–";
export const short = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 });
export const percent = (value) => (value == null ? "–" : `${value.toFixed(1)} %`);
export const rate = (value) => number(value, value < 10 ? 1 : 0);
export const counted = (count, thing) => `${number(count)} ${thing}${count === 1 ? "" : "s"}`;
export const shown = (label) => (label === "" ? "(empty text)" : String(label));

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
