// Helpers that all scripts share: requests, parts of pages, messages.

// Only markup from this server is inserted into a page. The server escapes all text from histories.
const policy = window.trustedTypes?.createPolicy("takeback", { createHTML: (text) => text });

/** Turns markup from this server into nodes. */
export function parse(text) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(text) : text;
  return template.content;
}

/** Sends a request to the server. */
async function request(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("no connection to takeback serve: start it again, and open the link that it prints");
  }
}

/** Fetches a part of a page as nodes. */
export async function fetchPart(address) {
  const response = await request(address, { headers: { accept: "text/html" } });
  const text = await response.text();
  if (!response.ok) {
    const problem = parse(text).querySelector(".problem h1");
    throw new Error(problem?.textContent ?? `The server answered ${response.status}.`);
  }
  return parse(text);
}

/** A failure that the API reported. */
export class Problem extends Error {
  constructor(body) {
    super(body.title);
    this.body = body;
  }
}

/** Reads from the API. */
export async function get(path) {
  const response = await request(`/api/v1/${path}`);
  const answer = await response.json();
  if (!response.ok) throw new Problem(answer);
  return answer;
}

/** Sends a request to the API. */
export function post(path, body, signal) {
  return send("POST", path, body, signal);
}

/** Sends a request with any method to the API. */
export async function send(method, path, body, signal) {
  const response = await request(`/api/v1/${path}`, {
    method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const answer = await response.json();
  if (!response.ok) throw new Problem(answer);
  return answer;
}

/** Creates an element with text, attributes and children. */
export function make(name, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Formats a number with its noun. */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Shows a message for a while, with an optional button. */
export function toast(text, { bad = false, button, details = [] } = {}) {
  const box = make("div", { class: bad ? "toast bad" : "toast" }, make("div", {}, make("span", { text }), ...details));
  if (button) {
    const action = make("button", { type: "button", class: "small", text: button.label });
    action.addEventListener("click", () => {
      box.remove();
      button.run();
    });
    box.append(action);
  }
  document.getElementById("toasts").replaceChildren(box);
  // A message with a button stays until the next message.
  if (!button) setTimeout(() => box.remove(), bad ? 12000 : 6000);
}

/** Tells the user what went wrong, and what to do next. */
export function showProblem(error) {
  const body = error.body ?? {};
  const first = (body.title ?? error.message).replace(/^./, (letter) => letter.toUpperCase());
  const causes = (body.causes ?? []).slice(0, 3).join("; ");
  const hint = body.hint ? ` Hint: ${body.hint}.` : "";
  toast(`${first}${causes ? `: ${causes}` : ""}.${hint}`, { bad: true });
}

/** Shows or hides the message that the server cannot be reached, above the page. */
export function showOffline(isOffline) {
  const known = document.getElementById("offline");
  if (!isOffline) known?.remove();
  else if (!known) {
    const text = "No connection to takeback serve. What you see may be out of date. If the server has ended, start it again and open the link that it prints.";
    document.getElementById("main").before(make("p", { id: "offline", role: "status", text }));
  }
}

/** Shows the times in a part of the page, relative to now or absolute. */
export function updateTimes(root = document) {
  const isAbsolute = document.documentElement.dataset.times === "absolute";
  for (const element of root.querySelectorAll("time[datetime]:not(.message time)")) {
    const then = new Date(element.dateTime);
    const long = element.dataset.long !== undefined;
    const short = relative(then);
    const words = !long ? short : short === "now" ? "just now" : `${short} ago`;
    element.textContent = isAbsolute ? absolute(then) : words;
    element.title = then.toLocaleString();
  }
}

function relative(then) {
  const seconds = Math.floor((Date.now() - then.getTime()) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  if (seconds < 31536000) return `${Math.floor(seconds / 86400)}d`;
  return `${Math.floor(seconds / 31536000)}y`;
}

function absolute(then) {
  const two = (number) => String(number).padStart(2, "0");
  const day = `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`;
  const time = `${two(then.getHours())}:${two(then.getMinutes())}`;
  return new Date().toDateString() === then.toDateString() ? time : `${day} ${time}`;
}
