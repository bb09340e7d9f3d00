// A text as pieces, each with the weight of its word.
import type { Word } from "./api";

export interface Piece {
  text: string;
  // Absent between words.
  word?: Word;
}

// The whole text in order. Words that lie outside of it, or over another, are left out: nothing of the text is shown twice.
export function piecesOf(text: string, words: Word[]): Piece[] {
  const points = [...text];
  const pieces: Piece[] = [];
  let at = 0;
  for (const word of [...words].sort((a, b) => a.start - b.start)) {
    if (word.start < at || word.end <= word.start || word.end > points.length) continue;
    if (word.start > at) pieces.push({ text: points.slice(at, word.start).join("") });
    pieces.push({ text: points.slice(word.start, word.end).join(""), word });
    at = word.end;
  }
  if (at < points.length) pieces.push({ text: points.slice(at).join("") });
  return pieces;
}

// How strongly a word is coloured, 0 to 4, beside the strongest of the text: small differences stay visible where no
// word moves much. Below half a percentage point a word counts as nothing.
export function strengthOf(weight: number, strongest: number): number {
  const size = Math.abs(weight);
  if (size < 0.005 || strongest <= 0) return 0;
  return Math.min(4, 1 + Math.floor(Math.sqrt(size / strongest) * 3.999));
}

export const strongestOf = (words: Word[]): number => Math.max(0, ...words.map((word) => Math.abs(word.weight)));

// The words that count most, each once with its largest weight, the strongest first.
export function topWords(words: Word[], most: number): Word[] {
  const best = new Map<string, Word>();
  for (const word of words) {
    const key = word.text.toLowerCase();
    const old = best.get(key);
    if (Math.abs(word.weight) >= 0.005 && (!old || Math.abs(word.weight) > Math.abs(old.weight))) best.set(key, word);
  }
  return [...best.values()].sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, most);
}
