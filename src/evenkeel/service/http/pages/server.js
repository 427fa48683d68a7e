// Requests to the service, with the key of the user.

const PATIENCE_SECONDS = 8;
const PATIENCE_TO_SEND_SECONDS = 60; // an image takes its time
const KEY = "evenkeel-key";

export const keyOf = () => sessionStorage.getItem(KEY);
export const useKey = (key) => sessionStorage.setItem(KEY, key);
export const forgetKey = () => sessionStorage.removeItem(KEY);

/** Report to other parts of the page what happened. */
export const announce = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function call(path, body) {
  const headers = { "Content-Type": "application/json" };
  const key = keyOf();
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
  const isOurs = key === keyOf(); // not one that was replaced while we waited
  if (response.status === 401 && isOurs) announce("key-needed", key ? "The service does not know this key." : "");
  throw refusal;
}

export class Poll {
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
