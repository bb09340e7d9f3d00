// A canvas that is drawn on: strokes, pictures laid into it, undo. What a model gets of it is in picture.ts.
import { centred, contain, fromRgba, inverted, isLightGround, resample, type ImageSize, type Picture } from "./picture";

const kMostUndo = 12;
// A person needs this many pixels across to draw on.
const kComfortable = 280;

export class Drawing {
  private readonly context: CanvasRenderingContext2D;
  private readonly before: ImageData[] = [];
  readonly width: number;
  readonly height: number;

  // A whole multiple of the model's pixels, so that each of them is the mean of whole ones.
  constructor(
    canvas: HTMLCanvasElement,
    private readonly size: ImageSize,
  ) {
    const scale = Math.max(1, Math.round(kComfortable / Math.max(size.width, size.height)));
    this.width = canvas.width = size.width * scale;
    this.height = canvas.height = size.height * scale;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
    this.fill();
  }

  // Grey models know light ink on a dark ground, as MNIST has it.
  private get ground(): string {
    return this.size.channels === 1 ? "#000" : "#fff";
  }

  private fill(): void {
    this.context.fillStyle = this.ground;
    this.context.fillRect(0, 0, this.width, this.height);
  }

  // Before every change that can be undone.
  remember(): void {
    this.before.push(this.context.getImageData(0, 0, this.width, this.height));
    if (this.before.length > kMostUndo) this.before.shift();
  }

  get canUndo(): boolean {
    return this.before.length > 0;
  }

  undo(): void {
    const old = this.before.pop();
    if (old) this.context.putImageData(old, 0, 0);
  }

  clear(): void {
    this.remember();
    this.fill();
  }

  line(from: [number, number], to: [number, number], thickness: number, colour: string): void {
    const { context } = this;
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = thickness;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...from);
    // A point of no length is drawn as a dot.
    context.lineTo(to[0] + (from[0] === to[0] && from[1] === to[1] ? 0.01 : 0), to[1]);
    context.stroke();
  }

  invert(): void {
    this.remember();
    const data = this.context.getImageData(0, 0, this.width, this.height);
    for (let at = 0; at < data.data.length; at += 4) {
      for (let channel = 0; channel < 3; ++channel) data.data[at + channel] = 255 - (data.data[at + channel] ?? 0);
    }
    this.context.putImageData(data, 0, 0);
  }

  // Lays a picture into the canvas, whole. True if it has the model's own size: then its pixels arrive as they are.
  lay(bitmap: ImageBitmap): boolean {
    this.remember();
    const exact = bitmap.width === this.size.width && bitmap.height === this.size.height;
    // Never more pixels than the canvas has, so that a photograph does not take seconds.
    const shrink = Math.min(1, this.width / bitmap.width, this.height / bitmap.height);
    const width = Math.max(1, Math.round(bitmap.width * shrink));
    const height = Math.max(1, Math.round(bitmap.height * shrink));
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d");
    if (!context) return false;
    context.imageSmoothingQuality = "high";
    context.drawImage(bitmap, 0, 0, width, height);
    let picture = fromRgba(context.getImageData(0, 0, width, height).data, width, height, 3);
    if (this.size.channels === 1 && !exact && isLightGround(picture)) picture = inverted(picture);
    this.put(contain(picture, this.width, this.height));
    return exact;
  }

  private put(picture: Picture): void {
    const data = this.context.createImageData(picture.width, picture.height);
    for (let pixel = 0; pixel < picture.width * picture.height; ++pixel) {
      for (let channel = 0; channel < 3; ++channel) data.data[4 * pixel + channel] = picture.values[3 * pixel + channel] ?? 0;
      data.data[4 * pixel + 3] = 255;
    }
    this.context.putImageData(data, 0, 0);
  }

  // What the model sees. Undefined while the canvas is empty.
  picture(centre: boolean): Picture | undefined {
    const { width, height, channels } = this.size;
    const data = this.context.getImageData(0, 0, this.width, this.height).data;
    const whole = fromRgba(data, this.width, this.height, channels);
    const ground = channels === 1 ? 0 : 255;
    if (whole.values.every((value) => Math.abs(value - ground) < 8)) return undefined;
    if (centre && channels === 1) return centred(whole, width, height);
    const all = { left: 0, top: 0, across: this.width, down: this.height };
    return resample(whole, all, width, height, [ground, ground, ground]);
  }
}
