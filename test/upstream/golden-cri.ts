import { join } from "node:path";
import type { ContainerdVersion } from "../bed/containerd/containerd.ts";

export interface GoldenCodec<T> {
  encode(message: T): { finish(): Uint8Array };
  decode(bytes: Uint8Array): T;
  fromPartial(partial: object): T;
}

interface GoldenMessage {
  readonly base64: string;
  readonly message: unknown;
}

const folder = join(import.meta.dirname, "../golden/cri");

/** Writes messages down: their bytes as they came, and for people what they say. */
export async function writeGolden<T>(
  version: ContainerdVersion,
  name: string,
  codec: GoldenCodec<T>,
  messages: readonly Uint8Array[],
): Promise<void> {
  const file = messages.map((bytes): GoldenMessage => {
    return { base64: Buffer.from(bytes).toString("base64"), message: readable(codec.decode(bytes)) };
  });
  await Bun.write(join(folder, version, `${name}.json`), `${JSON.stringify(file, undefined, 1)}\n`);
}

/** What a real runtime answered once, e.g. `readGolden("2.1", "container-status-running", ContainerStatusResponse)`. */
export async function readGolden<T>(version: ContainerdVersion, name: string, codec: GoldenCodec<T>): Promise<T> {
  const [message] = await readGoldenStream(version, name, codec);
  if (message === undefined) throw new Error(`test/golden/cri/${version}/${name}.json is empty`);
  return message;
}

/** What a real runtime sent on a stream once, in order. */
export async function readGoldenStream<T>(
  version: ContainerdVersion,
  name: string,
  codec: GoldenCodec<T>,
): Promise<readonly T[]> {
  const file: readonly GoldenMessage[] = await Bun.file(join(folder, version, `${name}.json`)).json();
  return file.map(({ base64 }) => codec.decode(Buffer.from(base64, "base64")));
}

/** 64-bit numbers and bytes as text; what is absent is left out. */
function readable(message: unknown): unknown {
  return JSON.parse(
    JSON.stringify(message, (_, value: unknown) => {
      if (typeof value === "bigint") return value.toString();
      return value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
    }),
  );
}
