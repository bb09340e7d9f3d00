// Where one draws: with mouse, finger or pen, or with the keys.
import { useEffect, useRef, useState } from "preact/hooks";
import { Drawing } from "./drawing";
import type { ImageSize } from "./picture";
import { useText } from "./text";

type Point = [number, number];

const kArrows: Record<string, Point> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

interface Props {
  size: ImageSize;
  // In pixels of a drawing that is 280 wide.
  pen: number;
  colour: string;
  hint: string;
  onReady: (drawing: Drawing) => void;
  onChange: () => void;
}

export function DrawingArea({ size, pen, colour, hint, onReady, onChange }: Props) {
  const t = useText();
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawing = useRef<Drawing>();
  const last = useRef<Point>();
  // Of the keys: where the pen is, and whether it draws.
  const [cursor, setCursor] = useState<{ at: Point; down: boolean }>();

  useEffect(() => {
    if (!canvas.current) return;
    drawing.current = new Drawing(canvas.current, size);
    onReady(drawing.current);
  }, []);

  const thickness = (): number => (pen * (drawing.current?.width ?? 280)) / 280;
  const pointOf = (event: PointerEvent): Point => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || !canvas.current) return [0, 0];
    return [
      ((event.clientX - box.left) / box.width) * canvas.current.width,
      ((event.clientY - box.top) / box.height) * canvas.current.height,
    ];
  };
  const drawTo = (to: Point): void => {
    drawing.current?.line(last.current ?? to, to, thickness(), colour);
    last.current = to;
    onChange();
  };

  const onKey = (event: KeyboardEvent): void => {
    const area = drawing.current;
    if (!area || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = cursor ?? { at: [area.width / 2, area.height / 2] as Point, down: false };
    const arrow = kArrows[event.key];
    if (arrow) {
      const step = area.width / 28;
      const at: Point = [
        Math.max(0, Math.min(area.width, here.at[0] + arrow[0] * step)),
        Math.max(0, Math.min(area.height, here.at[1] + arrow[1] * step)),
      ];
      if (here.down) {
        area.line(here.at, at, thickness(), colour);
        onChange();
      }
      setCursor({ at, down: here.down });
    } else if (event.key === " " || event.key === "Enter") {
      if (!here.down) {
        area.remember();
        area.line(here.at, here.at, thickness(), colour);
        onChange();
      }
      setCursor({ at: here.at, down: !here.down });
    } else {
      return;
    }
    event.preventDefault();
  };

  return (
    <div class="canvas-box">
      <canvas
        ref={canvas}
        class="canvas"
        tabIndex={0}
        role="application"
        aria-label={t.canvas}
        aria-describedby="canvas-keys"
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          setCursor(undefined);
          drawing.current?.remember();
          last.current = undefined;
          drawTo(pointOf(event));
        }}
        onPointerMove={(event) => {
          if (!last.current) return;
          const all = event.getCoalescedEvents?.() ?? [];
          for (const each of all.length > 0 ? all : [event]) {
            drawing.current?.line(last.current, pointOf(each), thickness(), colour);
            last.current = pointOf(each);
          }
          onChange();
        }}
        onPointerUp={() => (last.current = undefined)}
        onPointerCancel={() => (last.current = undefined)}
        onKeyDown={onKey}
        onBlur={() => setCursor(undefined)}
      />
      {cursor && drawing.current && (
        <span
          class={`cursor ${cursor.down ? "down" : ""}`}
          aria-hidden="true"
          style={{
            left: `${(cursor.at[0] / drawing.current.width) * 100}%`,
            top: `${(cursor.at[1] / drawing.current.height) * 100}%`,
          }}
        />
      )}
      {hint && !cursor && (
        <span class="canvas-hint" aria-hidden="true">
          {hint}
        </span>
      )}
      <p id="canvas-keys" class="quiet canvas-keys">
        {t.canvas_keys}
      </p>
    </div>
  );
}
