// The page: which model, its panel, what is known about it.
import { useEffect, useRef, useState } from "preact/hooks";
import { Announce } from "../components/Announce";
import { Notice } from "../components/Notice";
import { Shell } from "../components/Shell";
import { TokenDialog } from "../components/TokenDialog";
import { useShared } from "../i18n/language";
import { About } from "./About";
import type { Model } from "./api";
import { ImagePanel } from "./ImagePanel";
import { useModels } from "./models";
import { NumbersPanel } from "./NumbersPanel";
import { useText } from "./text";
import { TextPanel } from "./TextPanel";

export function App() {
  const t = useText();
  const shared = useShared();
  const { models, problem, wants_token, token_refused, refresh, giveToken } = useModels();
  const [chosen, choose] = useChosen();
  const model = models?.find((each) => each.name === chosen) ?? models?.find((each) => each.state === "ready") ?? models?.[0];
  useEffect(() => {
    document.title = t.document_title(model?.name ?? "");
  }, [t, model?.name]);

  return (
    <Shell title={t.title}>
      {wants_token && <TokenDialog refused={token_refused} onToken={giveToken} />}
      {problem && <Notice kind="error">{problem.message ? <p lang="en">{problem.message}</p> : <p>{shared.no_answer}</p>}</Notice>}
      {!models && !problem && !wants_token && <p class="quiet">{t.loading}</p>}
      {models?.length === 0 && <Notice kind="waiting">{t.no_models}</Notice>}
      {models && models.length > 1 && model && <Chooser models={models} model={model} onChoose={choose} />}
      {model && <Desk key={model.name} model={model} onRefused={refresh} />}
    </Shell>
  );
}

// The name in the address, so that a model can be linked to.
function useChosen(): [string, (name: string) => void] {
  const read = (): string => {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  };
  const [chosen, setChosen] = useState(read);
  useEffect(() => {
    const changed = (): void => setChosen(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return [
    chosen,
    (name) => {
      setChosen(name);
      history.replaceState(null, "", `#${encodeURIComponent(name)}`);
    },
  ];
}

function Chooser({ models, model, onChoose }: { models: Model[]; model: Model; onChoose: (name: string) => void }) {
  const t = useText();
  const states = { ready: t.state_ready, waiting: t.state_waiting, failed: t.state_failed };
  return (
    <p class="chooser">
      <label for="model">{t.model}</label>
      <select id="model" value={model.name} onChange={(event) => onChoose(event.currentTarget.value)}>
        {models.map((each) => (
          <option key={each.name} value={each.name}>
            {each.state === "ready" ? each.name : `${each.name} (${states[each.state]})`}
          </option>
        ))}
      </select>
    </p>
  );
}

function Desk({ model, onRefused }: { model: Model; onRefused: () => void }) {
  const t = useText();
  const news = useNews(model);
  return (
    <>
      <Announce text={news} />
      {model.state === "waiting" && (
        <Notice kind="waiting" title={t.waiting_title}>
          <p>{t.waiting(model.file ?? model.name)}</p>
          {model.why && <p lang="en" class="quiet">{model.why}</p>}
        </Notice>
      )}
      {model.state === "failed" && (
        <Notice kind="error" title={t.failed_title}>
          {model.why && <p lang="en">{model.why}</p>}
          <p>{t.failed}</p>
        </Notice>
      )}
      {model.state === "ready" && model.why && (
        <Notice kind="warning" title={t.stale_title}>
          <p lang="en">{model.why}</p>
        </Notice>
      )}
      <div class={model.state === "ready" ? "desk" : "desk alone"}>
        {model.state === "ready" && <Panel model={model} onRefused={onRefused} />}
        <About model={model} />
      </div>
    </>
  );
}

// What has become of the model since the page was opened.
function useNews(model: Model): string {
  const t = useText();
  const before = useRef({ state: model.state, version: model.version });
  const [news, setNews] = useState("");
  useEffect(() => {
    const old = before.current;
    if (model.state === "ready" && old.state !== "ready") setNews(t.now_ready(model.name));
    else if (model.version !== undefined && old.version !== undefined && model.version !== old.version) {
      setNews(t.replaced(model.version));
    }
    before.current = { state: model.state, version: model.version };
  }, [model.state, model.version]);
  return news;
}

function Panel(props: { model: Model; onRefused: () => void }) {
  switch (props.model.kind) {
    case "text":
      // Without the words' numbers the server cannot read a text.
      return props.model.vocabulary === 0 ? <NumbersPanel {...props} /> : <TextPanel {...props} />;
    case "image":
      return <ImagePanel {...props} />;
    default:
      return <NumbersPanel {...props} />;
  }
}
