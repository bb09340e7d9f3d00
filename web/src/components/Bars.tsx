// Named values of 0 to 1 as bars; each is also written out.
export interface Bar {
  key: string;
  name: string;
  value: number;
  shown: string;
  best: boolean;
  // Which of the two colours that stand for opposites; the ordinary one otherwise.
  side?: "one" | "other";
}

export function Bars({ bars, label }: { bars: Bar[]; label: string }) {
  return (
    <ul class="bars" aria-label={label}>
      {bars.map((bar) => (
        <li key={bar.key} class={`${bar.best ? "best" : ""} ${bar.side ?? ""}`}>
          <span class="bar-name">{bar.name}</span>
          <span class="bar-track" aria-hidden="true">
            <span class="bar-fill" style={{ width: `${Math.max(0, Math.min(1, bar.value)) * 100}%` }} />
          </span>
          <span class="bar-value">{bar.shown}</span>
        </li>
      ))}
    </ul>
  );
}
