import { afterAll, beforeAll, expect, test } from "bun:test";
import { appendFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { followRuntimeCalls, type RuntimeCall, type RuntimeCalls, readRuntimeCalls } from "./runtime-calls.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-calls-"));
});
afterAll(() => rm(folder, { recursive: true }));

const line = (text: string) =>
  `time="2026-11-23T12:29:00.79Z" level=info msg="${text.replaceAll('"', '\\"')}" error="x"\n`;
const starting = 'time="2026-11-23T12:29:00.79Z" level=info msg="starting containerd" version="1.6.20~ds1"\n';
const id = "a".repeat(64);
const container = "c".repeat(64);
const pod = "&PodSandboxMetadata{Name:web,Uid:uid-1,Namespace:default,Attempt:0,}";
const main = "&ContainerMetadata{Name:main,Attempt:0,}";
const calls = {
  sandbox: line(`RunPodSandbox for ${pod}`),
  create: line(`CreateContainer within sandbox "${id}" for container ${main}`),
  start: line(`StartContainer for "${container}"`),
  pull: line('PullImage "127.0.0.1:5000/web:1"'),
  stop: line(`StopContainer for "${container}" with timeout 2 (s)`),
  stopSandbox: line(`StopPodSandbox for "${id}"`),
};
const returned = {
  sandbox: line(`RunPodSandbox for ${pod} returns sandbox id "${id}"`),
  create: line(`CreateContainer within sandbox "${id}" for ${main} returns container id "${container}"`),
  start: line(`StartContainer for "${container}" returns successfully`),
  pull: line('PullImage "127.0.0.1:5000/web:1" returns image reference "sha256:1"'),
  stop: line(`StopContainer for "${container}" returns successfully`),
  stopSandbox: line(`StopPodSandbox for "${id}" returns successfully`),
};
const failure = {
  sandbox: line(`RunPodSandbox for ${pod} failed, error`),
  create: line(`CreateContainer within sandbox "${id}" for ${main} failed`),
  start: line(`StartContainer for "${container}" failed`),
  pull: line('PullImage "127.0.0.1:5000/web:1" failed'),
  stop: line(`StopContainer for "${container}" failed`),
  stopSandbox: line(`StopPodSandbox for "${id}" failed`),
};
const classes = {
  sandbox: "sandbox",
  create: "create",
  start: "start",
  pull: "pull",
  stop: "stop",
  stopSandbox: "stop",
} as const;
const classesIn = ({ inFlight, interrupted }: RuntimeCalls) => ({
  inFlight: inFlight.map((call) => call.class),
  interrupted: interrupted.map((call) => call.class),
});

test.each(Object.keys(classes) as (keyof typeof classes)[])(
  "the call %s is in flight until it returns or fails",
  (call) => {
    const read = (log: string) => classesIn(readRuntimeCalls(starting + log));
    const own = classes[call];
    expect(read(calls[call])).toEqual({ inFlight: [own], interrupted: [] });
    expect(read(calls[call] + returned[call])).toEqual({ inFlight: [], interrupted: [] });
    expect(read(calls[call] + failure[call])).toEqual({ inFlight: [], interrupted: [] });
    expect(read(calls[call] + starting)).toEqual({ inFlight: [], interrupted: [own] });
    expect(read(calls[call] + returned[call] + starting)).toEqual({ inFlight: [], interrupted: [] });
  },
);

test("calls have the pod and the container that earlier calls have returned", () => {
  const log = calls.sandbox + returned.sandbox + calls.create + returned.create + calls.start;
  const owners = ({ podUid, container: name, containerId }: RuntimeCall) => ({ podUid, name, containerId });
  const { failed } = readRuntimeCalls(log + failure.start);
  expect(failed.map(owners)).toEqual([{ podUid: "uid-1", name: "main", containerId: container }]);
  expect(failed.map(({ fromMs, untilMs }) => untilMs - fromMs)).toEqual([0]);
  expect(readRuntimeCalls(log + starting).interrupted.map(owners)).toEqual(failed.map(owners));
  const beforeCreation = readRuntimeCalls(calls.sandbox + returned.sandbox + calls.create).inFlight;
  expect(beforeCreation.map(owners)).toEqual([{ podUid: "uid-1", name: "main", containerId: undefined }]);
});

test("one of two equal calls stays in flight when the other one returns", () => {
  const { stopSandbox } = calls;
  const { inFlight } = readRuntimeCalls(starting + stopSandbox + stopSandbox + returned.stopSandbox);
  expect(inFlight.map(({ name }) => name)).toEqual([`StopPodSandbox for "${id}"`]);
});

test("the return of a call that began in an earlier process is ignored", () => {
  const read = readRuntimeCalls(starting + calls.pull + starting + calls.stop + returned.pull);
  expect(classesIn(read)).toEqual({ inFlight: ["stop"], interrupted: ["pull"] });
});

test("a followed log is read as it grows, also when a line is incomplete", async () => {
  const file = join(folder, "containerd.log");
  await writeFile(file, starting + calls.start + calls.pull.slice(0, 50));
  const follow = followRuntimeCalls(file);
  expect(classesIn(await follow())).toEqual({ inFlight: ["start"], interrupted: [] });
  await appendFile(file, calls.pull.slice(50));
  expect(classesIn(await follow())).toEqual({ inFlight: ["start", "pull"], interrupted: [] });
  expect(classesIn(await follow())).toEqual({ inFlight: ["start", "pull"], interrupted: [] });
  await appendFile(file, returned.start + starting);
  expect(classesIn(await follow())).toEqual({ inFlight: [], interrupted: ["pull"] });
});
