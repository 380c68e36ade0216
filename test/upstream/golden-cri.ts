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

/** Records messages in a golden file: the bytes as received, and for readers the decoded message. */
export async function writeGolden<T>(
  version: ContainerdVersion,
  name: string,
  codec: GoldenCodec<T>,
  messages: readonly Uint8Array[],
): Promise<void> {
  const file = messages.map((bytes): GoldenMessage => {
    return { base64: Buffer.from(bytes).toString("base64"), message: toReadable(codec.decode(bytes)) };
  });
  await Bun.write(join(folder, version, `${name}.json`), `${JSON.stringify(file, undefined, 1)}\n`);
}

/** Reads one recorded response, e.g. `readGolden("2.1", "container-status-running", ContainerStatusResponse)`. */
export async function readGolden<T>(version: ContainerdVersion, name: string, codec: GoldenCodec<T>): Promise<T> {
  const [message] = await readGoldenStream(version, name, codec);
  if (message === undefined) throw new Error(`test/golden/cri/${version}/${name}.json is empty`);
  return message;
}

/** Reads the recorded messages of a stream, in order. */
export async function readGoldenStream<T>(
  version: ContainerdVersion,
  name: string,
  codec: GoldenCodec<T>,
): Promise<readonly T[]> {
  const file: readonly GoldenMessage[] = await Bun.file(join(folder, version, `${name}.json`)).json();
  return file.map(({ base64 }) => codec.decode(Buffer.from(base64, "base64")));
}

/** Turns 64-bit numbers and bytes into text and omits absent fields. */
function toReadable(message: unknown): unknown {
  return JSON.parse(
    JSON.stringify(message, (_, value: unknown) => {
      if (typeof value === "bigint") return value.toString();
      return value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
    }),
  );
}
