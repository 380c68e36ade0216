// Compares the codec of the CRI with those of other generators: time, memory and start, each compiled as the agent is.
//   bun test/bench/codec-bench.ts [--rounds 15]
// npm installs the other generators into a temporary folder; their code is generated from proto/cri.
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { compileOptions } from "../../cli/build.ts";
import {
  ContainerStatusResponse,
  CreateContainerRequest,
  ListContainersResponse,
  ListPodSandboxResponse,
  PodSandboxStatusResponse,
} from "../../proto/cri/gen/api.ts";
import { codecOptions } from "../../proto/cri/generate.ts";
import { readGolden } from "../upstream/golden-cri.ts";
import { type CodecCase, type CodecSpeed, codecCases } from "./codec-process.ts";
import { type Measured, medianOf } from "./statistics.ts";

const repository = join(import.meta.dirname, "..", "..");
const protos = join(repository, "proto", "cri");

/** The other generators, and the libraries that their code uses. */
const packages = ["@bufbuild/protobuf@2.17.0", "protobufjs@8.8.1", "protobufjs-cli@2.7.1", "ts-proto@2.18.0"];

/** A round starts each program once for speed and once for memory, and several times for its start. */
const STARTS_PER_ROUND = 4;

interface Program {
  readonly name: string;
  readonly path: string;
}

interface CodecResult {
  readonly name: string;
  readonly first: Readonly<Record<CodecCase, Measured>>;
  readonly usual: Readonly<Record<CodecCase, Measured>>;
  /** All cases that decode, of one process. */
  readonly allDecoded: Measured;
  readonly anonymousMb: Measured;
  readonly startMs: Measured;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { rounds: { type: "string", default: "15" } } });
  const folder = await mkdtemp(join(tmpdir(), "berth-codec-"));
  try {
    await writeMessages(join(folder, "messages"));
    const programs = await buildPrograms(folder);
    const results = measure(programs, join(folder, "messages"), Number(values.rounds));
    print(results, Number(values.rounds));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const hundred = <T>(make: (at: number) => T): readonly T[] => Array.from({ length: 100 }, (_, at) => make(at));

/** An id as the runtime makes them, of 64 hexadecimal digits. */
const idOf = (at: number) => at.toString(16).padStart(4, "0").repeat(16);

/** Writes a hundred of each recorded message, with ids of their own, as base64 lines. */
async function writeMessages(folder: string): Promise<void> {
  await mkdir(folder);
  const write = async (name: string, messages: readonly Uint8Array[]) =>
    await writeFile(join(folder, name), messages.map((bytes) => Buffer.from(bytes).toString("base64")).join("\n"));
  const sandboxes = (await readGolden("2.1", "list-pod-sandbox-ready", ListPodSandboxResponse)).items;
  const manySandboxes = hundred((at) => ({ ...sandboxes[at % sandboxes.length]!, id: idOf(at) }));
  await write("ListPodSandboxResponse", [ListPodSandboxResponse.encode({ items: manySandboxes }).finish()]);
  const { containers } = await readGolden("2.1", "list-containers", ListContainersResponse);
  const manyContainers = hundred((at) => ({ ...containers[at % containers.length]!, id: idOf(at) }));
  await write("ListContainersResponse", [ListContainersResponse.encode({ containers: manyContainers }).finish()]);
  const sandbox = await readGolden("2.1", "pod-sandbox-status-ready", PodSandboxStatusResponse);
  const sandboxStatuses = hundred((at) => ({ ...sandbox, status: { ...sandbox.status!, id: idOf(at) } }));
  await write(
    "PodSandboxStatusResponse",
    sandboxStatuses.map((status) => PodSandboxStatusResponse.encode(status).finish()),
  );
  const container = await readGolden("2.1", "container-status-running", ContainerStatusResponse);
  const containerStatuses = hundred((at) => ({ ...container, status: { ...container.status!, id: idOf(at) } }));
  await write(
    "ContainerStatusResponse",
    containerStatuses.map((status) => ContainerStatusResponse.encode(status).finish()),
  );
  await write("CreateContainerRequest", hundred(createRequest));
}

/** A container with what most pods have: some variables and mounts, labels, limits and a security context. */
function createRequest(at: number): Uint8Array {
  const envs = Array.from({ length: 12 }, (_, n) => ({
    key: `SERVICE_PORT_${n}`,
    value: Buffer.from(`tcp://10.96.0.${n}:443`),
  }));
  const mounts = Array.from({ length: 5 }, (_, n) => ({
    containerPath: `/var/run/secrets/mount-${n}`,
    hostPath: `/var/lib/kubelet/pods/${idOf(at)}/volumes/kubernetes.io~projected/mount-${n}`,
    readonly: n % 2 === 0,
  }));
  const labels = { "io.kubernetes.container.name": "web", "io.kubernetes.pod.name": `web-${at}` };
  const linux = {
    resources: { cpuPeriod: 100_000n, cpuQuota: 50_000n, cpuShares: 512n, memoryLimitInBytes: 256n << 20n },
    securityContext: { runAsUser: { value: 1000n }, noNewPrivs: true, capabilities: { dropCapabilities: ["ALL"] } },
  };
  return CreateContainerRequest.encode(
    CreateContainerRequest.fromPartial({
      podSandboxId: idOf(at),
      config: {
        metadata: { name: "web", attempt: 0 },
        image: { image: "sha256:910df1fb5fd03c6bb4cbf7685cfaf6fbd6713833a9df84a19ce1c989d788be60" },
        command: ["/bin/sh", "-c"],
        args: ["exec sleep infinity"],
        envs,
        mounts,
        labels,
        annotations: { "io.kubernetes.container.restartCount": "0" },
        linux,
      },
      sandboxConfig: { metadata: { name: `web-${at}`, namespace: "default", uid: idOf(at).slice(0, 36) }, labels },
    }),
  ).finish();
}

/** Generates the code of the compared codecs and compiles a program for each. */
async function buildPrograms(folder: string): Promise<readonly Program[]> {
  await writeFile(join(folder, "package.json"), "{}");
  run("npm", ["install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", ...packages]);
  const messages = await messagesOfCalls();
  const ours = join(protos, "gen", "api.ts");
  const plain = generateByTsProto(join(folder, "ts-proto-1"), join(repository, "node_modules"));
  const bufbuild = generateByTsProto(join(folder, "ts-proto-2"), join(folder, "node_modules"));
  const pbjs = await generateByPbjs(folder, messages);
  const names = messages.join(", ");
  const sources = {
    ours: `import { ${names} } from ${JSON.stringify(ours)};`,
    "ts-proto 1 without int64.ts": `import { ${names} } from ${JSON.stringify(plain)};`,
    "ts-proto 2 on @bufbuild/protobuf": `import { ${names} } from ${JSON.stringify(bufbuild)};`,
    "pbjs static module": `import { runtime } from ${JSON.stringify(pbjs)};\nconst { ${names} } = runtime.v1;`,
  };
  const programs: Program[] = [];
  for (const [name, imports] of Object.entries(sources)) {
    const path = join(folder, `codec-${programs.length}`);
    const start = `import { runCodecProcess } from ${JSON.stringify(join(import.meta.dirname, "codec-process.ts"))};`;
    await writeFile(`${path}.ts`, `${start}\n${imports}\nawait runCodecProcess({ ${names} });\n`);
    run(process.execPath, ["build", ...compileOptions, `--outfile=${path}`, `${path}.ts`]);
    programs.push({ name, path });
  }
  return programs;
}

/** The messages of the calls that the agent makes. */
async function messagesOfCalls(): Promise<readonly string[]> {
  const folder = join(repository, "cri");
  const sources = (await readdir(folder)).filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
  const texts = await Promise.all(sources.map((name) => readFile(join(folder, name), "utf8")));
  const calls = texts.flatMap((text) => [
    ...text.matchAll(/(?:runtime|image)Verb\(\s*"\w+",\s*(\w+),\s*(\w+),?\s*\)/g),
  ]);
  return [...new Set(calls.flatMap(([, request = "", response = ""]) => [request, response]))].toSorted();
}

/** The code of a release of ts-proto, with the options of our codec. Returns the module of the CRI. */
function generateByTsProto(out: string, nodeModules: string): string {
  const plugin = { local: join(nodeModules, ".bin", "protoc-gen-ts_proto"), out, opt: codecOptions };
  const buf = join(repository, "node_modules", ".bin", "buf");
  run(buf, ["generate", protos, "--template", JSON.stringify({ version: "v2", plugins: [plugin] })]);
  return join(out, "api.ts");
}

/** A static module with the messages of our calls. Returns its path. */
async function generateByPbjs(folder: string, messages: readonly string[]): Promise<string> {
  const path = join(folder, "pbjs.js");
  const filter = join(folder, "filter.json");
  await writeFile(
    filter,
    JSON.stringify({ rootName: "runtime.v1", messageNames: messages.map((m) => `runtime.v1.${m}`) }),
  );
  const leftOut = ["create", "verify", "convert", "delimited", "typeurl", "comments", "service"].map(
    (one) => `--no-${one}`,
  );
  const options = ["-t", "static-module", "-w", "es6", ...leftOut, "--filter", filter, "-o", path];
  run(join(folder, "node_modules", ".bin", "pbjs"), [...options, join(protos, "api.proto")]);
  return path;
}

const run = (file: string, args: readonly string[]) =>
  execFileSync(file, args, { stdio: ["ignore", "ignore", "inherit"] });

/** Runs the programs in turn, round after round, so that a change of the machine's load concerns all of them. */
function measure(programs: readonly Program[], folder: string, rounds: number): readonly CodecResult[] {
  const samples = programs.map(({ name }) => ({
    name,
    speeds: [] as Readonly<Record<CodecCase, CodecSpeed>>[],
    anonymousMb: [] as number[],
    startMs: [] as number[],
  }));
  for (let round = 0; round < rounds; round += 1)
    for (const [at, { path }] of programs.entries()) {
      const { speeds, anonymousMb, startMs } = samples[at]!;
      speeds.push(JSON.parse(outputOf(path, "speed", folder, round)));
      anonymousMb.push(JSON.parse(outputOf(path, "memory", folder, round)).anonymousBytes / 1e6);
      for (let start = 0; start < STARTS_PER_ROUND; start += 1) {
        const started = performance.now();
        outputOf(path, "start", folder, round);
        startMs.push(performance.now() - started);
      }
    }
  return samples.map(({ name, speeds, anonymousMb, startMs }) => {
    const bySpeed = (which: keyof CodecSpeed) =>
      Object.fromEntries(
        Object.keys(codecCases).map((one) => [one, medianOf(speeds.map((speed) => speed[one as CodecCase][which]))]),
      ) as Record<CodecCase, Measured>;
    return {
      name,
      first: bySpeed("firstMs"),
      usual: bySpeed("usualMs"),
      allDecoded: medianOf(speeds.map(decodeMsOf)),
      anonymousMb: medianOf(anonymousMb),
      startMs: medianOf(startMs),
    };
  });
}

const decodeMsOf = (speeds: Readonly<Record<CodecCase, CodecSpeed>>) =>
  Object.entries(speeds)
    .filter(([name]) => codecCases[name as CodecCase].does === "decode")
    .reduce((sum, [, { usualMs }]) => sum + usualMs, 0);

const outputOf = (path: string, mode: string, folder: string, round: number) =>
  execFileSync(path, [mode, folder, String(round)], { encoding: "utf8" });

/** A Markdown table: the medians, with the lowest and the highest sample. */
function print(results: readonly CodecResult[], rounds: number): void {
  const rowOf = (what: string, pick: (result: CodecResult) => Measured, digits: number) => {
    const cells = results.map((result) => {
      const { value, low, high } = pick(result);
      return `${value.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
    });
    return [what, ...cells];
  };
  const cases = Object.keys(codecCases) as CodecCase[];
  const rows = [
    ["what", ...results.map(({ name }) => name)],
    ["---", ...results.map(() => "---")],
    ...cases.map((name) => rowOf(`${codecCases[name].does} ${name}, ms`, ({ usual }) => usual[name], 3)),
    rowOf("decode all four, ms", ({ allDecoded }) => allDecoded, 3),
    ...cases.map((name) => rowOf(`first ${codecCases[name].does} ${name}, ms`, ({ first }) => first[name], 2)),
    rowOf("anonymous memory, MB", ({ anonymousMb }) => anonymousMb, 2),
    rowOf("start to end of a process with one pass, ms", ({ startMs }) => startMs, 1),
  ];
  console.log(`Medians of ${rounds} rounds, with the lowest and the highest sample:\n`);
  for (const row of rows) console.log(`| ${row.join(" | ")} |`);
}

await main();
