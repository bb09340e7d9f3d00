// Numbers that a person types, as an instance of the shape that a model wants.
import type { Instance } from "./api";

export type Shape = number[];

// Nested zeros; a size that the model leaves open is 1.
export const zeros = (shape: Shape): Instance =>
  shape.length === 0 ? 0 : Array.from({ length: Math.max(1, shape[0] ?? 1) }, () => zeros(shape.slice(1)));

// The shape of nested lists of numbers; undefined if rows differ in length or something is no number.
export function shapeOf(value: unknown): Shape | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? [] : undefined;
  if (!Array.isArray(value)) return undefined;
  const inner = value.map(shapeOf);
  const first = inner[0];
  if (value.length === 0) return [0];
  if (!first || inner.some((shape) => !shape || shape.join() !== first.join())) return undefined;
  return [value.length, ...first];
}

// Whether a value of this shape is what the model wants; sizes of 0 or less are open.
export const fits = (shape: Shape, wanted: Shape): boolean =>
  shape.length === wanted.length &&
  wanted.every((size, index) => size <= 0 || size === shape[index]);

// "1, 2 3" and "[1, 2, 3]" alike. Undefined if it is neither.
export function parseNumbers(text: string): Instance | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  if (trimmed.startsWith("[")) {
    try {
      const value: unknown = JSON.parse(trimmed);
      return shapeOf(value) ? (value as Instance) : undefined;
    } catch {
      return undefined;
    }
  }
  const numbers = trimmed.split(/[\s,;]+/).filter(Boolean).map(Number);
  return numbers.every(Number.isFinite) ? numbers : undefined;
}
