// The picture as the model gets it, each of its pixels a square.
import { useEffect, useRef } from "preact/hooks";
import { bytesOf, type Picture } from "./picture";

export function Seen({ picture, label }: { picture: Picture | undefined; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || !canvas.current || !picture) return;
    canvas.current.width = picture.width;
    canvas.current.height = picture.height;
    const data = context.createImageData(picture.width, picture.height);
    const bytes = bytesOf(picture);
    for (let pixel = 0; pixel < picture.width * picture.height; ++pixel) {
      for (let channel = 0; channel < 3; ++channel) {
        data.data[4 * pixel + channel] = bytes[picture.channels === 1 ? pixel : 3 * pixel + channel] ?? 0;
      }
      data.data[4 * pixel + 3] = 255;
    }
    context.putImageData(data, 0, 0);
  }, [picture]);
  return (
    <figure class="seen" hidden={!picture}>
      <canvas ref={canvas} aria-hidden="true" />
      <figcaption class="quiet">{label}</figcaption>
    </figure>
  );
}
