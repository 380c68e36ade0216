import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { memoryOf } from "./process-usage.ts";
import { median } from "./statistics.ts";

/** The codec of one message, as all compared codecs offer it. */
export interface WireCodec {
  encode(message: object): { finish(): Uint8Array };
  decode(bytes: Uint8Array): object;
}

/** The messages that a codec process decodes or encodes, by the file with their bytes: one message per base64 line. */
export const codecCases = {
  "ListPodSandbox of 100": { message: "ListPodSandboxResponse", does: "decode" },
  "ListContainers of 100": { message: "ListContainersResponse", does: "decode" },
  "100 × PodSandboxStatus": { message: "PodSandboxStatusResponse", does: "decode" },
  "100 × ContainerStatus": { message: "ContainerStatusResponse", does: "decode" },
  "100 × CreateContainer": { message: "CreateContainerRequest", does: "encode" },
} as const;

export type CodecCase = keyof typeof codecCases;

/** What one process measures. The first pass is that of a process without any compiled code of the codec. */
export interface CodecSpeed {
  readonly firstMs: number;
  /** The median of a round's passes. */
  readonly usualMs: number;
}

const WARM_UP_PASSES = 60;
const TIMED_PASSES = 100;
/** The passes before the memory is read, as after some hours of an agent. */
const MEMORY_PASSES = 20;
const SETTLING_STEPS = 5;
const SETTLING_STEP_MS = 300;

/**
 * The main function of a codec process: `PROGRAM speed|memory|start FOLDER ROUND`. Prints its result as JSON. The codecs
 * include the messages of all calls that the agent makes, so that the memory includes their code.
 */
export async function runCodecProcess(codecs: Readonly<Record<string, WireCodec>>): Promise<void> {
  const [mode, folder = "", round = "0"] = process.argv.slice(2);
  const names = Object.keys(codecCases) as CodecCase[];
  // Each round begins with another case, because code that is compiled for the first case serves the later ones.
  const first = Number(round) % names.length;
  const cases = [...names.slice(first), ...names.slice(0, first)];
  const passes = new Map(cases.map((name) => [name, passOf(name, folder, codecs)]));
  if (mode === "speed") {
    const speeds = [...passes].map(([name, pass]) => [name, speedOf(pass)] as const);
    console.log(JSON.stringify(Object.fromEntries(speeds)));
    return;
  }
  for (const pass of passes.values()) for (let at = 0; at < (mode === "memory" ? MEMORY_PASSES : 1); at += 1) pass();
  if (mode === "memory") {
    // The allocator returns pages to the kernel some time after they are free.
    for (let at = 0; at < SETTLING_STEPS; at += 1) {
      Bun.gc(true);
      await pause(SETTLING_STEP_MS);
    }
  }
  const { anonymousBytes } = await memoryOf(process.pid);
  console.log(JSON.stringify({ anonymousBytes }));
}

function passOf(name: CodecCase, folder: string, codecs: Readonly<Record<string, WireCodec>>): () => void {
  const { message, does } = codecCases[name];
  const codec = codecs[message];
  if (codec === undefined) throw new Error(`no codec for ${message}`);
  // Buffers, as grpc-js hands them over.
  const lines = readFileSync(join(folder, message), "utf8").split("\n");
  const inputs = lines.map((line) => Buffer.from(line, "base64"));
  if (does === "decode")
    return () => {
      for (const bytes of inputs) codec.decode(bytes);
    };
  let messages: readonly object[] | undefined;
  return () => {
    messages ??= inputs.map((bytes) => codec.decode(bytes));
    for (const one of messages) codec.encode(one).finish();
  };
}

function speedOf(pass: () => void): CodecSpeed {
  const firstMs = timeOf(pass);
  for (let at = 0; at < WARM_UP_PASSES; at += 1) pass();
  return { firstMs, usualMs: median(Array.from({ length: TIMED_PASSES }, () => timeOf(pass))) };
}

function timeOf(pass: () => void): number {
  const started = performance.now();
  pass();
  return performance.now() - started;
}
