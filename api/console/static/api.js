// API client: sends requests, and raises an ApiError with the node's problem detail.

import { actor, token } from "./identity.js";
import { setClock } from "./now.js";

const PLAIN_ID = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;
const REQUEST_TIMEOUT_MS = 15_000;

/** An error response, or status 0 if the node cannot be reached; `quarantineReason` is set if the group is quarantined. */
export class ApiError extends Error {
  constructor(status, detail, requestId, quarantineReason) {
    super(detail);
    this.status = status;
    this.requestId = requestId;
    this.quarantineReason = quarantineReason;
  }
}

/** Return the path of a group; ids that are not plain are encoded as ~ and base64url. */
export function groupPath(groupId, ...rest) {
  const segment = PLAIN_ID.test(groupId) ? groupId : `~${base64url(groupId)}`;
  return ["/v1/groups", segment, ...rest.map(encodeURIComponent)].join("/");
}

/** Return the path of a topic; browsers take . and .. out of paths, so these are encoded as group ids are. */
export const topicPath = (topic) => `/v1/topics/${[".", ".."].includes(topic) ? `~${base64url(topic)}` : encodeURIComponent(topic)}`;

/** Send a GET and return the JSON; `query` omits values that are null or "". */
export async function read(path, query = {}) {
  return parsed(await request("GET", path + asQuery(query)));
}

/** Send GETs until the last page, or until the list `field` has `most` entries, and return the first JSON with all of the list, and the last cursor. */
export async function readPages(path, field, most = Infinity, query = {}) {
  const whole = await read(path, query);
  while (whole.next_cursor && whole[field].length < most) {
    const page = await read(path, { ...query, cursor: whole.next_cursor });
    whole[field].push(...page[field]);
    whole.next_cursor = page.next_cursor;
  }
  return whole;
}

/** Send a change and return its id (null if nothing was changed), and the JSON; `body` or `query` carries the reason. Requests with the same `key` make one change. */
export async function change(method, path, { body, query = {}, key } = {}) {
  const response = await request(method, path + asQuery(query), body, key);
  return { changeId: response.headers.get("x-muster-change-id"), answer: response.status === 204 ? null : await parsed(response) };
}

const LARGE = /\d{16}/;

/** Return the JSON of a response; offsets and lags that a number of JavaScript cannot hold are texts of their digits. */
async function parsed(response) {
  const text = await response.text().catch((error) => { throw unanswered(error); });
  try {
    return JSON.parse(text, LARGE.test(text) ? withDigits : undefined);
  } catch {
    throw new ApiError(0, "What answers is no node, or its answer was cut off.");
  }
}

/** Keep the digits of an offset or a lag; a browser without the third argument rounds it. */
function withDigits(key, value, context) {
  return (key.endsWith("offset") || key === "lag") && Number.isInteger(value) && !Number.isSafeInteger(value) ? (context?.source ?? value) : value;
}

async function request(method, path, body, key) {
  const sent = token();
  const response = await send(method, path, body, key);
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const refusal = new ApiError(response.status, sentence(response, problem), response.headers.get("x-request-id"), problem.quarantine_reason);
  if (response.status === 401 && token() === sent) document.dispatchEvent(new CustomEvent("token-needed", { detail: refusal.message }));
  throw refusal;
}

async function send(method, path, body, key) {
  try {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const response = await fetch(path, { method, headers: headersOf(method, body, key), body: body && JSON.stringify(body), signal });
    setClock(response.headers.get("date"));
    return response;
  } catch (error) {
    throw unanswered(error);
  }
}

const unanswered = (error) => new ApiError(0, error.name === "TimeoutError" ? "The node did not answer in time." : "The node cannot be reached.");

function headersOf(method, body, key) {
  const headers = {};
  if (key) headers["Idempotency-Key"] = key;
  if (body) headers["Content-Type"] = "application/json";
  if (method !== "GET" && actor()) headers["X-Muster-Actor"] = utf8Bytes(actor());
  if (token()) headers.Authorization = `Bearer ${utf8Bytes(token())}`;
  return headers;
}

function sentence(response, problem) {
  const detail = problem.detail ?? `The node answered with status ${response.status}`;
  return `${detail[0].toUpperCase()}${detail.slice(1)}${/[.!?]$/.test(detail) ? "" : "."}`;
}

function asQuery(query) {
  const given = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  const kept = given.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
}

/** A header holds bytes; the node reads them as UTF-8. */
function utf8Bytes(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

function base64url(text) {
  return btoa(utf8Bytes(text)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
