// Draw, drop, paste or choose a picture; the prediction follows while it changes.
import { useEffect, useRef, useState } from "preact/hooks";
import { HttpError } from "../net/http";
import { steadily } from "../net/latest";
import { predict, predictRequest, type Model, type ModelRequest } from "./api";
import { CurlCard } from "./CurlCard";
import { Drawing } from "./drawing";
import { DrawingArea } from "./DrawingArea";
import { Glance, OutcomeCard } from "./OutcomeCard";
import { bytesOf, drawsCharacters, imageSizeOf, type Picture } from "./picture";
import { base64, encodePng } from "./png";
import { Seen } from "./Seen";
import { useText } from "./text";

interface Answer {
  request: ModelRequest;
  outputs?: number[];
}

export function ImagePanel({ model, onRefused }: { model: Model; onRefused: () => void }) {
  const t = useText();
  const size = imageSizeOf(model.input?.shape ?? []);
  const usually_centred = size.channels === 1 && drawsCharacters(model.class_names ?? [], model.trained?.data ?? "");
  const drawing = useRef<Drawing>();
  const [seen, setSeen] = useState<Picture>();
  const [answer, setAnswer] = useState<Answer>();
  const [problem, setProblem] = useState<HttpError>();
  const [centre, setCentre] = useState(usually_centred);
  const [pen, setPen] = useState(size.channels === 1 ? 20 : 12);
  const [colour, setColour] = useState(size.channels === 1 ? "#ffffff" : "#1f5fbf");
  const [can_undo, setCanUndo] = useState(false);
  const [no_picture, setNoPicture] = useState("");
  const [dropping, setDropping] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  // The asker lives as long as the panel, and must not see the first render's values for ever.
  const now = useRef({ centre, onRefused });
  now.current = { centre, onRefused };

  const asker = useRef(
    steadily<Picture>(120, async (picture) => {
      const png = await encodePng(bytesOf(picture), picture.width, picture.height, picture.channels);
      const request = predictRequest(model.name, { b64: base64(png) });
      try {
        const outputs = await predict(request);
        // Cleared meanwhile: nothing is to be seen.
        if (!drawing.current?.picture(false)) return;
        setProblem(undefined);
        setAnswer({ request, outputs });
      } catch (error) {
        const known = error instanceof HttpError ? error : new HttpError(0, "");
        if (known.status === 401) return now.current.onRefused();
        setProblem(known);
        setAnswer({ request });
      }
    }),
  ).current;
  useEffect(() => asker.stop, []);

  const changed = (centred: boolean = now.current.centre): void => {
    const picture = drawing.current?.picture(centred);
    setSeen(picture);
    setCanUndo(drawing.current?.canUndo ?? false);
    if (picture) {
      asker.push(picture);
    } else {
      asker.drop();
      setAnswer(undefined);
      setProblem(undefined);
    }
  };
  const setCentred = (wanted: boolean): void => {
    setCentre(wanted);
    changed(wanted);
  };
  useEffect(() => changed(), [model.version]);

  const take = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    setNoPicture("");
    try {
      const bitmap = await createImageBitmap(file);
      // Of the training data itself nothing is moved.
      if (drawing.current?.lay(bitmap)) setCentre((now.current.centre = false));
      bitmap.close();
      changed(now.current.centre);
    } catch {
      setNoPicture(file.name);
    }
  };
  useEffect(() => {
    const pasted = (event: ClipboardEvent): void => void take([...(event.clipboardData?.files ?? [])][0]);
    addEventListener("paste", pasted);
    return () => removeEventListener("paste", pasted);
  }, []);

  return (
    <>
      <section
        class={`card input ${dropping ? "dropping" : ""}`}
        aria-labelledby="input-title"
        onDragOver={(event) => {
          event.preventDefault();
          setDropping(true);
        }}
        onDragLeave={() => setDropping(false)}
        onDrop={(event) => {
          event.preventDefault();
          setDropping(false);
          void take(event.dataTransfer?.files[0]);
        }}
      >
        <h2 id="input-title">{t.draw_title}</h2>
        <div class="studio">
          <DrawingArea
            size={size}
            pen={pen}
            colour={colour}
            hint={dropping ? t.drop_now : seen ? "" : t.draw_hint}
            onReady={(made) => {
              drawing.current = made;
            }}
            onChange={() => changed()}
          />
          <p class="glance" aria-hidden="true">
            <Glance model={model} outputs={answer?.outputs} />
          </p>
          <div class="tools">
            <div class="row">
              <button type="button" disabled={!can_undo} onClick={() => (drawing.current?.undo(), changed())}>
                {t.undo}
              </button>
              <button
                type="button"
                disabled={!seen}
                onClick={() => {
                  drawing.current?.clear();
                  setCentred(usually_centred);
                }}
              >
                {t.clear}
              </button>
              <button type="button" disabled={!seen} onClick={() => (drawing.current?.invert(), changed())}>
                {t.invert}
              </button>
            </div>
            <label class="field">
              {t.pen}
              <input type="range" min="4" max="60" value={pen} onInput={(event) => setPen(event.currentTarget.valueAsNumber)} />
            </label>
            {size.channels === 3 && (
              <label class="field">
                {t.colour}
                <input type="color" value={colour} onInput={(event) => setColour(event.currentTarget.value)} />
              </label>
            )}
            {size.channels === 1 && (
              <label class="check">
                <input type="checkbox" checked={centre} onChange={(event) => setCentred(event.currentTarget.checked)} />
                {t.centre}
              </label>
            )}
            <button type="button" onClick={() => chooser.current?.click()}>
              {t.choose}
            </button>
            <input
              ref={chooser}
              type="file"
              accept="image/*"
              hidden
              onChange={(event) => {
                void take(event.currentTarget.files?.[0]);
                event.currentTarget.value = "";
              }}
            />
            <p class="quiet">{t.drop_hint}</p>
            {no_picture && (
              <p class="problem" role="alert">
                {t.no_picture(no_picture)}
              </p>
            )}
            <Seen picture={seen} label={t.seen(`${size.width} × ${size.height}`)} />
          </div>
        </div>
      </section>
      <OutcomeCard
        model={model}
        outputs={answer?.outputs}
        problem={problem}
        busy={seen !== undefined && !answer && !problem}
        empty={t.image_empty}
      />
      <CurlCard predict={answer?.request} />
    </>
  );
}
