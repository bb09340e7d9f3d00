// The prediction: the class in large letters, then all of them as bars.
import { Announce } from "../components/Announce";
import { Bars, type Bar } from "../components/Bars";
import { Notice } from "../components/Notice";
import { measured, percent, whole } from "../i18n/format";
import { useLanguage, useShared } from "../i18n/language";
import type { HttpError } from "../net/http";
import type { Model } from "./api";
import { outcomeOf, type ClassScore } from "./classes";
import { useText } from "./text";

// So many are shown in their own order; of more, the most likely ones.
const kMostInOrder = 12;
const kMostRanked = 10;

interface Props {
  model: Model;
  outputs: number[] | undefined;
  problem: HttpError | undefined;
  busy: boolean;
  // What to do first, when there is nothing to predict.
  empty: string;
}

export function OutcomeCard({ model, outputs, problem, busy, empty }: Props) {
  const t = useText();
  const shared = useShared();
  return (
    <section class="card result" aria-labelledby="result-title" aria-busy={busy}>
      <h2 id="result-title">{t.prediction}</h2>
      {problem && <Notice kind="error">{problem.message ? <p lang="en">{problem.message}</p> : <p>{shared.no_answer}</p>}</Notice>}
      {!outputs?.length && !problem && <p class="quiet">{busy ? t.predicting : empty}</p>}
      {outputs && outputs.length > 0 && <Shown model={model} outputs={outputs} />}
    </section>
  );
}

// The predicted class in one line, for where the whole does not fit beside the input.
export function Glance({ model, outputs }: { model: Model; outputs: number[] | undefined }) {
  const t = useText();
  const { language } = useLanguage();
  const outcome = outcomeOf(model, outputs ?? [], [t.negative, t.positive]);
  const best = outcome.ranked[0];
  if (!best) return <>–</>;
  return (
    <>
      <strong>{best.name || t.class_number(best.index)}</strong>{" "}
      {outcome.probabilities ? percent(best.score, language) : measured(best.score, language)}
    </>
  );
}

function Shown({ model, outputs }: { model: Model; outputs: number[] }) {
  const t = useText();
  const { language } = useLanguage();
  const outcome = outcomeOf(model, outputs, [t.negative, t.positive]);
  const best = outcome.ranked[0];
  if (!best) return null;
  const show = (score: number): string => (outcome.probabilities ? percent(score, language) : measured(score, language));
  const nameOf = (each: ClassScore): string => each.name || t.class_number(each.index);
  if (outcome.single && !outcome.probabilities) {
    return (
      <p class="headline" role="status">
        {show(best.score)}
      </p>
    );
  }
  const few = outcome.ranked.length <= kMostInOrder;
  const listed = few
    ? [...outcome.ranked].sort((a, b) => a.index - b.index)
    : outcome.ranked.slice(0, kMostRanked);
  const low = Math.min(...outcome.ranked.map((each) => each.score));
  const range = Math.max(1e-9, best.score - low);
  const bars: Bar[] = listed.map((each) => ({
    key: String(each.index),
    name: nameOf(each),
    value: outcome.probabilities ? each.score : (each.score - low) / range,
    shown: show(each.score),
    best: each.index === best.index,
    ...(isBinary(model, outputs) ? { side: each.index === 1 ? ("one" as const) : ("other" as const) } : {}),
  }));
  const rest = outcome.ranked.length - listed.length;
  return (
    <>
      <p class="headline">
        <span class="headline-name">{nameOf(best)}</span> <span class="headline-value">{show(best.score)}</span>
      </p>
      <Announce text={t.summary(nameOf(best), show(best.score))} />
      <Bars bars={bars} label={outcome.probabilities ? t.classes : t.scores} />
      {rest > 0 && <p class="quiet">{t.more_classes(whole(rest, language))}</p>}
    </>
  );
}

export const isBinary = (model: Model, outputs: number[]): boolean =>
  (outputs.length === 1 && model.activation === "sigmoid") || (outputs.length === 2 && model.activation === "softmax");
