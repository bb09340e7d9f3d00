// A text goes in; out come the prediction and the words that moved it.
import { useEffect, useRef, useState } from "preact/hooks";
import { HttpError, isAbort } from "../net/http";
import { latestOnly } from "../net/latest";
import { explain, explainRequest, predict, predictRequest, type Explanation, type Model, type ModelRequest } from "./api";
import { CurlCard } from "./CurlCard";
import { OutcomeCard } from "./OutcomeCard";
import { kExampleReviews, useText } from "./text";
import { WordsCard } from "./WordsCard";

// What is shown; `text` is what was sent, whatever has been typed since.
interface Answer {
  text: string;
  request: ModelRequest;
  outputs?: number[];
  explanation?: Explanation;
  explain_request?: ModelRequest;
}

export function TextPanel({ model, onRefused }: { model: Model; onRefused: () => void }) {
  const t = useText();
  const [text, setText] = useState("");
  const [answer, setAnswer] = useState<Answer>();
  const [problem, setProblem] = useState<HttpError>();
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const refused = useRef(onRefused);
  refused.current = onRefused;

  const asker = useRef(
    latestOnly<string>(400, async (wanted, signal) => {
      setBusy(true);
      const request = predictRequest(model.name, wanted);
      const explain_request = explainRequest(model.name, wanted);
      try {
        const outputs = await predict(request, signal);
        setProblem(undefined);
        setAnswer({ text: wanted, request, outputs });
        const explanation = await explain(explain_request, signal);
        setAnswer({ text: wanted, request, outputs, explanation, explain_request });
      } catch (error) {
        if (isAbort(error) || signal.aborted) return;
        const known = error instanceof HttpError ? error : new HttpError(0, "");
        if (known.status === 401) return refused.current();
        setProblem(known);
        setAnswer((old) => (old?.text === wanted && old.outputs ? old : { text: wanted, request }));
      } finally {
        if (!signal.aborted) setBusy(false);
      }
    }),
  ).current;
  useEffect(() => asker.cancel, []);

  const change = (value: string, at_once: boolean): void => {
    setText(value);
    if (value.trim() === "") {
      asker.cancel();
      setBusy(false);
      setAnswer(undefined);
      setProblem(undefined);
    } else if (at_once) {
      asker.now(value);
    } else {
      asker.later(value);
    }
  };
  // Another version may say something else.
  useEffect(() => {
    if (text.trim()) asker.now(text);
  }, [model.version]);

  const reviews = isOfReviews(model);
  return (
    <>
      <section class="card input" aria-labelledby="input-title">
        <h2 id="input-title">
          <label for="text">{reviews ? t.review_label : t.text_label}</label>
        </h2>
        <textarea
          id="text"
          ref={field}
          rows={7}
          value={text}
          aria-describedby="text-hint"
          onInput={(event) => change(event.currentTarget.value, false)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              change(text, true);
            }
          }}
        />
        <p id="text-hint" class="quiet">
          {t.text_hint}
        </p>
        <div class="row">
          <button type="button" class="primary" disabled={text.trim() === ""} onClick={() => change(text, true)}>
            {t.predict}
          </button>
          <button
            type="button"
            disabled={text === ""}
            onClick={() => {
              change("", true);
              field.current?.focus();
            }}
          >
            {t.clear_text}
          </button>
          {reviews && (
            <span class="examples" role="group" aria-label={t.examples}>
              <span class="quiet" aria-hidden="true">
                {t.examples}:
              </span>
              {kExampleReviews.map((review, index) => (
                <button type="button" class="link" key={review} onClick={() => change(review, true)}>
                  {t.example_names[index]}
                </button>
              ))}
            </span>
          )}
        </div>
      </section>
      <OutcomeCard model={model} outputs={answer?.outputs} problem={problem} busy={busy} empty={t.text_empty} />
      {answer?.outputs && (
        <WordsCard
          model={model}
          text={answer.text}
          outputs={answer.outputs}
          explanation={answer.explanation}
          failed={problem !== undefined}
        />
      )}
      <CurlCard predict={answer?.request} explain={answer?.explain_request} />
    </>
  );
}

// Two classes that are unnamed, or named as reviews are.
export function isOfReviews(model: Model): boolean {
  const names = (model.class_names ?? []).map((name) => name.toLowerCase());
  if (names.length > 0) return names.includes("positive") && names.includes("negative");
  return (model.outputs === 1 && model.activation === "sigmoid") || model.outputs === 2;
}
