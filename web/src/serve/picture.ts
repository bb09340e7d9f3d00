// Pictures as plain arrays: what is drawn or dropped becomes what the model was trained on. No canvas here.

// Rows of pixels, `channels` values of 0 to 255 each.
export interface Picture {
  width: number;
  height: number;
  channels: 1 | 3;
  values: Float32Array;
}

export interface ImageSize {
  width: number;
  height: number;
  channels: 1 | 3;
}

// Of a model's input without the batch: {h, w}, {h, w, c} or {c, h, w}. Sizes that the model leaves open are 28.
export function imageSizeOf(shape: number[]): ImageSize {
  const size = (value: number | undefined): number => (value !== undefined && value > 0 ? value : 28);
  const isChannels = (value: number | undefined): value is 1 | 3 => value === 1 || value === 3;
  const [a, b, c] = shape;
  if (shape.length === 3 && isChannels(c)) return { height: size(a), width: size(b), channels: c };
  if (shape.length === 3 && isChannels(a)) return { height: size(b), width: size(c), channels: a };
  return { height: size(a), width: size(b), channels: 1 };
}

// From a canvas' bytes; what is transparent is `ground`.
export function fromRgba(rgba: Uint8ClampedArray, width: number, height: number, channels: 1 | 3, ground = 255): Picture {
  const values = new Float32Array(width * height * channels);
  for (let pixel = 0; pixel < width * height; ++pixel) {
    const alpha = (rgba[4 * pixel + 3] ?? 255) / 255;
    const over = (channel: number): number => (rgba[4 * pixel + channel] ?? 0) * alpha + ground * (1 - alpha);
    if (channels === 1) {
      values[pixel] = 0.299 * over(0) + 0.587 * over(1) + 0.114 * over(2);
    } else {
      for (let channel = 0; channel < 3; ++channel) values[3 * pixel + channel] = over(channel);
    }
  }
  return { width, height, channels, values };
}

// The part [left, left + across) × [top, top + down), which may reach beyond the picture (there it is `ground`), as
// width × height pixels, each the mean of the area it covers.
export function resample(
  from: Picture,
  part: { left: number; top: number; across: number; down: number },
  width: number,
  height: number,
  ground: number[],
): Picture {
  const { channels } = from;
  const values = new Float32Array(width * height * channels);
  const columns = shares(part.left, part.across, width, from.width);
  const rows = shares(part.top, part.down, height, from.height);
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) {
      for (let channel = 0; channel < channels; ++channel) {
        let sum = 0;
        let covered = 0;
        for (const [row, tall] of rows[y] ?? []) {
          for (const [column, wide] of columns[x] ?? []) {
            sum += tall * wide * (from.values[(row * from.width + column) * channels + channel] ?? 0);
            covered += tall * wide;
          }
        }
        values[(y * width + x) * channels + channel] = sum + (1 - covered) * (ground[channel] ?? 0);
      }
    }
  }
  return { width, height, channels, values };
}

// Per target cell of one axis: the source cells below it and which share of the target cell each fills.
function shares(begin: number, length: number, cells: number, limit: number): [number, number][][] {
  const step = length / cells;
  return Array.from({ length: cells }, (_, cell) => {
    const from = begin + cell * step;
    const to = from + step;
    const found: [number, number][] = [];
    for (let source = Math.max(0, Math.floor(from)); source < Math.min(limit, Math.ceil(to)); ++source) {
      const overlap = Math.min(to, source + 1) - Math.max(from, source);
      if (overlap > 0) found.push([source, overlap / step]);
    }
    return found;
  });
}

// The whole picture inside width × height, its own proportions kept, the rest as its border.
export function contain(from: Picture, width: number, height: number): Picture {
  const scale = Math.max(from.width / width, from.height / height);
  const across = width * scale;
  const down = height * scale;
  return resample(
    from,
    { left: (from.width - across) / 2, top: (from.height - down) / 2, across, down },
    width,
    height,
    borderOf(from),
  );
}

// The median of the outermost pixels, per channel: a thing that touches the edge does not count.
export function borderOf(picture: Picture): number[] {
  const { width, height, channels, values } = picture;
  const found = Array.from({ length: channels }, (): number[] => []);
  for (let y = 0; y < height; ++y) {
    const edge = y === 0 || y === height - 1;
    for (let x = 0; x < width; x += edge ? 1 : Math.max(1, width - 1)) {
      found.forEach((list, channel) => list.push(values[(y * width + x) * channels + channel] ?? 0));
    }
  }
  return found.map((list) => list.sort((one, other) => one - other)[Math.floor(list.length / 2)] ?? 0);
}

// Data sets such as MNIST are light on dark; a photographed page is the other way round.
export const isLightGround = (picture: Picture): boolean => {
  const border = borderOf(picture);
  return border.reduce((sum, value) => sum + value, 0) / border.length > 127;
};

export const inverted = (picture: Picture): Picture => ({
  ...picture,
  values: picture.values.map((value) => 255 - value),
});

// Light ink on a dark ground as MNIST has it: the ink's longer side is 20 of 28, its centre of mass in the middle.
// Without ink, a dark picture.
export function centred(ink: Picture, width: number, height: number): Picture {
  const box = inkBox(ink);
  if (!box) return { width, height, channels: 1, values: new Float32Array(width * height) };
  const scale = Math.max((box.right - box.left) / width, (box.bottom - box.top) / height) * (28 / 20);
  const across = width * scale;
  const down = height * scale;
  return resample(ink, { left: box.x - across / 2, top: box.y - down / 2, across, down }, width, height, [0]);
}

// Where ink is, and its centre of mass; undefined without any.
function inkBox(ink: Picture) {
  let left = ink.width;
  let right = 0;
  let top = ink.height;
  let bottom = 0;
  let mass = 0;
  let x_moment = 0;
  let y_moment = 0;
  for (let y = 0; y < ink.height; ++y) {
    for (let x = 0; x < ink.width; ++x) {
      const value = ink.values[y * ink.width + x] ?? 0;
      if (value < 16) continue;
      left = Math.min(left, x);
      right = Math.max(right, x + 1);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y + 1);
      mass += value;
      x_moment += value * (x + 0.5);
      y_moment += value * (y + 0.5);
    }
  }
  return mass > 0 ? { left, right, top, bottom, x: x_moment / mass, y: y_moment / mass } : undefined;
}

// Whole values of 0 to 255.
export const bytesOf = (picture: Picture): Uint8Array =>
  Uint8Array.from(picture.values, (value) => Math.max(0, Math.min(255, Math.round(value))));

// Whether drawings look like the training data only when they are centred: digits and letters do, clothes do not.
export function drawsCharacters(class_names: string[], data: string): boolean {
  if (class_names.length > 0) return class_names.every((name) => [...name].length === 1);
  return /mnist/i.test(data) && !/fashion/i.test(data);
}
