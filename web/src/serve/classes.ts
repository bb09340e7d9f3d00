// What a model's outputs say: which class, how sure.
import type { Model } from "./api";

export interface ClassScore {
  // Of the class; empty where the model does not name it.
  name: string;
  index: number;
  // A probability of 0 to 1, or any number where `probabilities` of the outcome is false.
  score: number;
}

export interface Outcome {
  // False where the outputs are scores or measurements.
  probabilities: boolean;
  // One number that is no class at all.
  single: boolean;
  // The most likely one first.
  ranked: ClassScore[];
}

type Described = Pick<Model, "kind" | "activation" | "class_names">;

// `binary` is what the reader calls negative and positive: the two classes of one sigmoid output, or of a text model, that
// have no other names.
export function outcomeOf(model: Described, outputs: number[], binary: [string, string]): Outcome {
  const given = model.class_names ?? [];
  const opinion = given.length > 0 ? given.join().toLowerCase() === "negative,positive" : model.kind === "text" && outputs.length === 2;
  const names = opinion ? binary : given;
  if (outputs.length === 1 && model.activation === "sigmoid") {
    const p = outputs[0] ?? 0;
    const both = [1 - p, p].map((score, index) => ({ name: names[index] ?? binary[index] ?? "", index, score }));
    return { probabilities: true, single: false, ranked: byScore(both) };
  }
  const scores = outputs.map((score, index) => ({ name: names[index] ?? "", index, score }));
  return {
    probabilities: model.activation === "softmax" || model.activation === "sigmoid",
    single: outputs.length === 1,
    ranked: byScore(scores),
  };
}

const byScore = (scores: ClassScore[]): ClassScore[] =>
  [...scores].sort((a, b) => b.score - a.score || a.index - b.index);
