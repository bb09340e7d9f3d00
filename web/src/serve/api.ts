// What dure-server says about its models, and how it is asked for predictions.
import { requestJson } from "../net/http";

export interface Trained {
  data?: string;
  samples?: number;
  epochs?: number;
  workers?: number;
  sync?: string | { every?: number };
  models?: number;
  accuracy?: number;
  loss?: number;
  date?: string;
}

export interface Model {
  name: string;
  file?: string;
  state: "ready" | "waiting" | "failed";
  why?: string;
  version?: number;
  loaded?: string;
  kind?: "text" | "image" | "numbers";
  input?: { shape?: number[]; dtype?: string };
  vocabulary?: number;
  outputs?: number;
  activation?: "sigmoid" | "softmax" | "none";
  class_names?: string[];
  parameters?: number;
  trained?: Trained | null;
}

// A word of the text that was sent, with its place in code points.
export interface Word {
  text: string;
  start: number;
  end: number;
  known: boolean;
  weight: number;
}

export interface Explanation {
  prediction: number[];
  words: Word[];
  truncated: boolean;
}

export type Instance = string | number | { b64: string } | Instance[];

// A request as the page sends it and curl would.
export interface ModelRequest {
  path: string;
  body: string;
}

export const predictRequest = (model: string, instance: Instance): ModelRequest => ({
  path: `v1/models/${encodeURIComponent(model)}:predict`,
  body: JSON.stringify({ instances: [instance] }),
});

export const explainRequest = (model: string, text: string): ModelRequest => ({
  path: `api/models/${encodeURIComponent(model)}/explain`,
  body: JSON.stringify({ text }),
});

export const fetchModels = async (): Promise<Model[]> =>
  (await requestJson<{ models?: Model[] }>("api/models")).models ?? [];

// The outputs for the request's one instance.
export async function predict(request: ModelRequest, signal?: AbortSignal): Promise<number[]> {
  const reply = await requestJson<{ predictions?: unknown[] }>(request.path, {
    body: request.body,
    ...(signal ? { signal } : {}),
  });
  return numbersIn(reply.predictions?.[0]);
}

export const explain = (request: ModelRequest, signal?: AbortSignal): Promise<Explanation> =>
  requestJson<Explanation>(request.path, { body: request.body, ...(signal ? { signal } : {}) });

// All numbers of a prediction, which may be one number or nested rows of them.
export const numbersIn = (value: unknown): number[] =>
  Array.isArray(value) ? value.flatMap(numbersIn) : typeof value === "number" ? [value] : [];
