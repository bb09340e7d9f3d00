// What is known about a model: what it takes and gives, how it was trained.
import { Facts, type Fact } from "../components/Facts";
import { measured, moment, percent, whole } from "../i18n/format";
import { useLanguage, type Language } from "../i18n/language";
import type { Model, Trained } from "./api";
import { useText } from "./text";
import type { ServeText } from "./text_en";

export function About({ model }: { model: Model }) {
  const t = useText();
  const { language } = useLanguage();
  const trained = model.trained;
  return (
    <section class="card about" aria-labelledby="about-title">
      <h2 id="about-title">{t.about}</h2>
      {trained?.accuracy !== undefined && (
        <p class="figure">
          <span class="figure-value">{percent(trained.accuracy, language)}</span> <span>{t.accuracy}</span>
        </p>
      )}
      <Facts facts={factsOf(model, t, language)} />
      {model.state === "ready" && (
        <>
          <h3>{t.trained}</h3>
          {trained ? <Facts facts={trainingOf(trained, t, language)} /> : <p class="quiet">{t.untrained}</p>}
        </>
      )}
    </section>
  );
}

function factsOf(model: Model, t: ServeText, language: Language): Fact[] {
  const count = (value: number | undefined): string | undefined => (value === undefined ? undefined : whole(value, language));
  const file: Fact[] = [
    [t.model, model.name],
    [t.file, model.file],
  ];
  // Of a file that is not there, nothing else is known.
  if (model.state !== "ready") return file;
  const shape = model.input?.shape;
  return [
    ...file,
    [t.version, count(model.version)],
    [t.loaded, model.loaded && moment(model.loaded, language)],
    [t.kind, model.kind && t.kinds[model.kind]],
    [t.input, [shape?.join(" × "), model.input?.dtype].filter(Boolean).join(", ")],
    [t.vocabulary, model.vocabulary ? t.words_count(whole(model.vocabulary, language)) : undefined],
    [t.output, outputOf(model, t, language)],
    [t.parameters, count(model.parameters)],
  ];
}

function outputOf(model: Model, t: ServeText, language: Language): string | undefined {
  // 0 where only a prediction would tell.
  if (!model.outputs) return undefined;
  if (model.outputs === 1) return model.activation === "sigmoid" ? t.one_output : t.one_value;
  return t.class_count(whole(model.outputs, language));
}

function trainingOf(trained: Trained, t: ServeText, language: Language): Fact[] {
  const count = (value: number | undefined): string | undefined => (value === undefined ? undefined : whole(value, language));
  const samples = trained.samples === undefined ? "" : t.samples(whole(trained.samples, language));
  return [
    [t.average, trained.models === undefined ? undefined : t.models_count(whole(trained.models, language))],
    [t.data, [trained.data, samples].filter(Boolean).join(", ")],
    [t.epochs, count(trained.epochs)],
    [t.workers, count(trained.workers)],
    [t.sync, trained.sync === undefined ? undefined : syncWords(trained.sync, t, language)],
    [t.loss, trained.loss === undefined ? undefined : measured(trained.loss, language)],
    [t.date, trained.date && moment(trained.date, language)],
  ];
}

// "step", "end", {every: 50} or "every 50"; anything else as it stands.
function syncWords(sync: NonNullable<Trained["sync"]>, t: ServeText, language: Language): string {
  if (sync === "step") return t.sync_step;
  if (sync === "end") return t.sync_end;
  const every = typeof sync === "string" ? Number(/\d+/.exec(sync)?.[0]) : sync.every;
  if (every) return t.sync_every(whole(every, language));
  return typeof sync === "string" ? sync : JSON.stringify(sync);
}
