// A command in a box, with a button that copies it.
import { useEffect, useRef, useState } from "preact/hooks";
import { useShared } from "../i18n/language";

export function Command({ text, label }: { text: string; label: string }) {
  const shared = useShared();
  const [state, setState] = useState<"" | "copied" | "failed">("");
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (!state) return;
    const timer = setTimeout(() => setState(""), 2500);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async (): Promise<void> => setState((await copyText(text, box.current)) ? "copied" : "failed");
  return (
    <div class="command">
      <pre ref={box} tabIndex={0} role="region" aria-label={label}>
        <code>{text}</code>
      </pre>
      <div class="command-row">
        <button type="button" onClick={() => void copy()} aria-label={label}>
          {shared.copy}
        </button>
        <span role="status">{state === "copied" ? shared.copied : state === "failed" ? shared.copy_failed : ""}</span>
      </div>
    </div>
  );
}

// Over plain HTTP a browser has no clipboard for pages, but copies what is selected.
async function copyText(text: string, box: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const selection = getSelection();
    if (!box || !selection) return false;
    selection.selectAllChildren(box);
    return document.execCommand("copy");
  }
}
