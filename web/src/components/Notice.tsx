// One thing that the person should know, in a sentence or two.
import type { ComponentChildren } from "preact";

type Kind = "waiting" | "warning" | "error";

export function Notice({ kind, title, children }: { kind: Kind; title?: string; children?: ComponentChildren }) {
  return (
    <div class={`notice ${kind}`} role={kind === "error" ? "alert" : "status"}>
      {kind === "waiting" && <span class="spinner" aria-hidden="true" />}
      <div>
        {title && <p class="notice-title">{title}</p>}
        {children}
      </div>
    </div>
  );
}
