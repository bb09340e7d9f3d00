// Requests to the server that the page came from, with its bearer token where it wants one.

// What the server, or the way to it, has against a request, in one sentence. Status 0: no answer at all.
export class HttpError extends Error {
  constructor(
    readonly status: number,
    sentence: string,
  ) {
    super(sentence);
  }
}

const kTokenKey = "dure-token";
// Also kept here: storage may be forbidden.
let given = "";

// For this tab only: closing it forgets the token.
export const token = {
  get: (): string => {
    try {
      given = sessionStorage.getItem(kTokenKey) ?? given;
    } catch {
      // What was given since the page was opened.
    }
    return given;
  },
  set: (value: string): void => {
    given = value;
    try {
      sessionStorage.setItem(kTokenKey, value);
    } catch {
      // Then a reload asks again.
    }
  },
};

// The address of a path of the server, also where a proxy puts the page below a path of its own.
export const urlOf = (path: string): string => new URL(path, document.baseURI.replace(/[?#].*$/, "")).href;

// The answer's JSON. HttpError otherwise; an aborted request throws what fetch throws.
export async function requestJson<T>(
  path: string,
  options: { body?: string; signal?: AbortSignal } = {},
): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response: Response;
  try {
    response = await fetch(urlOf(path), {
      method: options.body === undefined ? "GET" : "POST",
      headers,
      cache: "no-store",
      ...(options.body === undefined ? {} : { body: options.body }),
      ...(options.signal ? { signal: options.signal } : {}),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new HttpError(0, "");
  }
  const text = await response.text();
  if (!response.ok) throw new HttpError(response.status, sentenceOf(text) || response.statusText);
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new HttpError(response.status, "The answer is no JSON.");
  }
}

// What an error's body says: `{"error": "sentence"}`, or a short plain text.
export function sentenceOf(body: string): string {
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed === "object" && parsed !== null && "error" in parsed) {
      return typeof parsed.error === "string" ? parsed.error : JSON.stringify(parsed.error);
    }
  } catch {
    if (body.length <= 200 && !body.includes("<")) return body.trim();
  }
  return "";
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";
