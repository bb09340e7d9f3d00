// A PNG of exactly the pixels given. A canvas would make one with colours and transparency, of which a model of grey
// pictures knows nothing.

const kSignature = [137, 80, 78, 71, 13, 10, 26, 10];

// `pixels` has width × height × channels bytes, row by row.
export async function encodePng(
  pixels: Uint8Array,
  width: number,
  height: number,
  channels: 1 | 3,
): Promise<Uint8Array<ArrayBuffer>> {
  const row = width * channels;
  // Each row begins with its filter: none.
  const raw = new Uint8Array((row + 1) * height);
  for (let y = 0; y < height; ++y) raw.set(pixels.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
  const header = [...uint32(width), ...uint32(height), 8, channels === 1 ? 0 : 2, 0, 0, 0];
  return Uint8Array.from([
    ...kSignature,
    ...chunk("IHDR", header),
    ...chunk("IDAT", [...(await zlib(raw))]),
    ...chunk("IEND", []),
  ]);
}

async function zlib(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  if (typeof CompressionStream === "undefined") return stored(bytes);
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// As zlib has it, but not compressed.
export function stored(bytes: Uint8Array): Uint8Array {
  const out = [0x78, 0x01];
  for (let at = 0; at === 0 || at < bytes.length; at += 65535) {
    const block = bytes.subarray(at, at + 65535);
    const size = block.length;
    out.push(at + 65535 >= bytes.length ? 1 : 0, size & 255, size >> 8, ~size & 255, (~size >> 8) & 255, ...block);
  }
  let a = 1;
  let b = 0;
  for (const byte of bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return Uint8Array.from([...out, ...uint32(((b << 16) | a) >>> 0)]);
}

const uint32 = (value: number): number[] => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];

function chunk(type: string, data: number[]): number[] {
  const body = [...type].map((letter) => letter.charCodeAt(0)).concat(data);
  return [...uint32(data.length), ...body, ...uint32(crc32(body))];
}

function crc32(bytes: number[]): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

export function base64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
