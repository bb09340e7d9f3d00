// Numbers go in: a field for each of a few, one field for many.
import { useEffect, useRef, useState } from "preact/hooks";
import { HttpError, isAbort } from "../net/http";
import { latestOnly } from "../net/latest";
import { predict, predictRequest, type Instance, type Model, type ModelRequest } from "./api";
import { CurlCard } from "./CurlCard";
import { OutcomeCard } from "./OutcomeCard";
import { fits, parseNumbers, shapeOf, zeros, type Shape } from "./tensor";
import { useText } from "./text";

const kMostFields = 12;
const shown = (shape: Shape): string => `[${shape.join(", ")}]`;

export function NumbersPanel({ model, onRefused }: { model: Model; onRefused: () => void }) {
  const t = useText();
  // Empty if the model takes any shape.
  const wanted = model.input?.shape ?? [];
  const is_form = wanted.length === 1 && (wanted[0] ?? 0) > 0 && (wanted[0] ?? 0) <= kMostFields;
  const is_words = model.kind === "text";
  const [text, setText] = useState("");
  const [fields, setFields] = useState<string[]>(() => new Array<string>(is_form ? (wanted[0] ?? 0) : 0).fill("0"));
  const [mistake, setMistake] = useState("");
  const [answer, setAnswer] = useState<{ request: ModelRequest; outputs?: number[] }>();
  const [problem, setProblem] = useState<HttpError>();
  const [busy, setBusy] = useState(false);
  const refused = useRef(onRefused);
  refused.current = onRefused;

  const asker = useRef(
    latestOnly<Instance>(0, async (instance, signal) => {
      setBusy(true);
      const request = predictRequest(model.name, instance);
      try {
        setAnswer({ request, outputs: await predict(request, signal) });
        setProblem(undefined);
      } catch (error) {
        if (isAbort(error) || signal.aborted) return;
        const known = error instanceof HttpError ? error : new HttpError(0, "");
        if (known.status === 401) return refused.current();
        setAnswer({ request });
        setProblem(known);
      } finally {
        if (!signal.aborted) setBusy(false);
      }
    }),
  ).current;
  useEffect(() => asker.cancel, []);

  const ask = (): void => {
    const instance = is_form ? parseNumbers(`[${fields.map((field) => field || "0").join()}]`) : parseNumbers(text);
    const shape = instance === undefined ? undefined : shapeOf(instance);
    if (instance === undefined || !shape) return setMistake(t.not_numbers);
    // Shorter lists of words are the server's to pad.
    if (!is_words && wanted.length > 0 && !fits(shape, wanted)) return setMistake(t.wrong_shape(shown(shape), shown(wanted)));
    setMistake("");
    asker.now(instance);
  };
  const fill = (value: Instance): void => {
    setMistake("");
    if (is_form) setFields((value as number[]).map(String));
    else setText(JSON.stringify(value));
  };
  const whole = /int/.test(model.input?.dtype ?? "");
  const randomised = (value: Instance): Instance => {
    if (Array.isArray(value)) return value.map(randomised);
    return whole ? Math.floor(Math.random() * Math.min(256, model.vocabulary || 256)) : Math.round(Math.random() * 1000) / 1000;
  };

  return (
    <>
      <section class="card input" aria-labelledby="input-title">
        <h2 id="input-title">{t.numbers_title}</h2>
        {is_words && <p class="quiet">{t.no_index}</p>}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            ask();
          }}
        >
          {is_form ? (
            <div class="fields">
              {fields.map((field, index) => (
                <label class="field" key={index}>
                  {t.input_number(index + 1)}
                  <input
                    type="number"
                    step={whole ? "1" : "any"}
                    value={field}
                    onInput={(event) => {
                      const value = event.currentTarget.value;
                      setFields((old) => old.map((each, at) => (at === index ? value : each)));
                    }}
                  />
                </label>
              ))}
            </div>
          ) : (
            <>
              <label for="numbers">{wanted.length > 0 ? t.numbers_label(shown(wanted)) : t.numbers_any}</label>
              <textarea
                id="numbers"
                class="code"
                rows={7}
                value={text}
                spellcheck={false}
                aria-invalid={mistake !== ""}
                aria-describedby="numbers-hint numbers-problem"
                onInput={(event) => setText(event.currentTarget.value)}
              />
              <p id="numbers-hint" class="quiet">
                {t.numbers_hint}
              </p>
            </>
          )}
          <p id="numbers-problem" class="problem" role="alert">
            {mistake}
          </p>
          <div class="row">
            <button type="submit" class="primary">
              {t.predict}
            </button>
            {wanted.length > 0 && (
              <>
                <button type="button" onClick={() => fill(zeros(wanted))}>
                  {t.zeros}
                </button>
                <button type="button" onClick={() => fill(randomised(zeros(wanted)))}>
                  {t.random}
                </button>
              </>
            )}
          </div>
        </form>
      </section>
      <OutcomeCard model={model} outputs={answer?.outputs} problem={problem} busy={busy} empty={t.numbers_title} />
      <CurlCard predict={answer?.request} />
    </>
  );
}
