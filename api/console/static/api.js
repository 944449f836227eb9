// The API as the console asks it: a refusal comes back as an error whose message is the node's own sentence.

import { actor, token } from "./identity.js";

const PLAIN_ID = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;
const PATIENCE_MS = 15_000;

/** What the node refused, or that it could not be reached (status 0); `quarantineReason` where the group is quarantined. */
export class Refusal extends Error {
  constructor(status, detail, requestId, quarantineReason) {
    super(detail);
    this.status = status;
    this.requestId = requestId;
    this.quarantineReason = quarantineReason;
  }
}

/** Return the path of a group; ids that a path cannot hold as they are go as ~ and base64url. */
export function groupPath(groupId, ...rest) {
  const segment = PLAIN_ID.test(groupId) ? groupId : `~${base64url(groupId)}`;
  return ["/v1/groups", segment, ...rest.map(encodeURIComponent)].join("/");
}

/** Read something; `query` leaves out what is null or "". */
export function read(path, query = {}) {
  return ask("GET", path + asQuery(query));
}

/** Change something; `body` or `query` carries the reason. */
export function change(method, path, { body, query = {} } = {}) {
  return ask(method, path + asQuery(query), body);
}

async function ask(method, path, body) {
  const answer = await reach(method, path, body);
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = await answer.json().catch(() => ({}));
  const refusal = new Refusal(answer.status, sentence(answer, problem), answer.headers.get("x-request-id"), problem.quarantine_reason);
  if (answer.status === 401) document.dispatchEvent(new CustomEvent("token-needed", { detail: refusal.message }));
  throw refusal;
}

async function reach(method, path, body) {
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    return await fetch(path, { method, headers: headersOf(method, body), body: body && JSON.stringify(body), signal });
  } catch (error) {
    const why = error.name === "TimeoutError" ? "The node did not answer in time." : "The node cannot be reached.";
    throw new Refusal(0, why);
  }
}

function headersOf(method, body) {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (method !== "GET" && actor()) headers["X-Muster-Actor"] = inLatin(actor());
  if (token()) headers.Authorization = `Bearer ${token()}`;
  return headers;
}

function sentence(answer, problem) {
  const detail = problem.detail ?? `The node answered ${answer.status}`;
  return `${detail[0].toUpperCase()}${detail.slice(1)}${/[.!?]$/.test(detail) ? "" : "."}`;
}

function asQuery(query) {
  const given = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  const kept = given.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
}

/** A header holds bytes; the node reads them as UTF-8. */
function inLatin(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

function base64url(text) {
  return btoa(inLatin(text)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
