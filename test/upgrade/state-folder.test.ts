import { afterEach, beforeEach, expect, test } from "bun:test";
import { cp, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createPulledRecords } from "../../agent/act/images/pulled-records.ts";
import { createUserNamespaces } from "../../agent/act/user-namespaces.ts";
import { allocationOf } from "../../agent/decide/resize/allocation.ts";
import { createServices } from "../../agent/desired/objects/services.ts";
import { createPodCheckpoints } from "../../agent/desired/pod-checkpoints.ts";
import { createDesiredPods } from "../../agent/desired/pods.ts";
import { createFiles, type Files } from "../../host/fs/files.ts";
import { decodePullIntent } from "../../proto/kubelet/image-records.ts";
import { unconstrainedAdmission } from "../fakes/admission.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeLog } from "../fakes/log.ts";

/**
 * State folders that earlier releases wrote with their own writers. What they say must be read without loss by every later release, whatever
 * the code calls it by then. They are recordings: never edit one, add one for each new version of a format.
 */
const golden = join(import.meta.dirname, "../golden/state-fc9ef48");

let folder: string;
let root: Files;
let log: FakeLog;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-upgrade-"));
  await cp(golden, folder, { recursive: true });
  root = createFiles(folder);
  log = new FakeLog();
});
afterEach(() => rm(folder, { recursive: true }));

interface Recorded {
  readonly version: number;
  readonly record: { readonly uid: string; readonly acceptedAt: number; readonly isPlaceFree?: true };
}

const filesOf = async (path: string) => {
  const names = await readdir(join(folder, path));
  return await Promise.all(names.toSorted().map((name) => readFile(join(folder, path, name), "utf8")));
};

test("loads every pod checkpoint with every field, and sets none aside", async () => {
  const recorded = (await filesOf("berth/pods")).map((text) => (JSON.parse(text) as Recorded).record);
  const loaded = await createPodCheckpoints(root, log).load();
  expect(loaded).toHaveLength(8);
  const expected = recorded.map(({ isPlaceFree, ...record }) => ({ ...record, hasReleasedResources: isPlaceFree }));
  expect(loaded as unknown).toEqual(expected.toSorted((a, b) => a.acceptedAt - b.acceptedAt));
  expect(log.takeLines()).toEqual([]);
});

test("gives each pod of the API what its recorded spec requests: these releases allocated nothing else", async () => {
  const desired = createDesiredPods({
    ...{
      checkpoints: createPodCheckpoints(root, log),
      clock: new FakeClock(),
      log,
      sourceKinds: ["api", "file", "http"],
    },
    ...{ hasNoSource: false, admission: unconstrainedAdmission, wake: () => {}, cancelOutdated: () => {} },
    ...{ onManifestErrors: () => {}, onAllSourcesReady: () => {} },
  });
  await desired.restore();
  const admitted = desired.all().filter(({ source, admission }) => source.kind === "api" && admission === undefined);
  expect(admitted.length).toBeGreaterThan(0);
  for (const { pod, allocation } of admitted) expect(allocation).toEqual(allocationOf(pod));
});

test("saves a loaded pod checkpoint with the same field names and values", async () => {
  const before = (await filesOf("berth/pods")).map((text) => JSON.parse(text) as Recorded);
  const records = createPodCheckpoints(root, log);
  for (const pod of await records.load()) await records.save(pod);
  const after = (await filesOf("berth/pods")).map((text) => JSON.parse(text) as Recorded);
  expect(after.map(({ version, record }) => ({ version, record }))).toEqual(
    before.map(({ version, record }) => ({ version, record })),
  );
});

test("reads the records of pulled images and of a pull that had not ended", async () => {
  const records = createPulledRecords({ root, log });
  await records.list();
  expect(await records.get("sha256:aaaa")).toEqual({
    lastUpdatedTime: "2026-11-20T08:00:00Z",
    imageRef: "sha256:aaaa",
    credentialMapping: {
      "registry.example/shop/web": {
        kubernetesSecrets: [{ uid: "s-1", namespace: "shop", name: "pull", credentialHash: "ab".repeat(32) }],
        kubernetesServiceAccounts: [{ uid: "a-1", namespace: "shop", name: "default" }],
      },
    },
  });
  expect((await records.get("sha256:bbbb"))?.credentialMapping).toEqual({
    "registry.example/open": { nodePodsAccessible: true },
  });
  expect((await filesOf("image_manager/pulling")).map(decodePullIntent)).toEqual(["registry.example/shop/late:2"]);
  expect(log.takeLines()).toEqual([]);
});

test("reads the user-namespace range of a pod", async () => {
  const [uid = ""] = await readdir(join(folder, "pods"));
  await mkdir(join(folder, "pods/another"));
  const space = { first: 65_536, length: 65_536 * 100, idsPerPod: 65_536 };
  const used = createUserNamespaces(root, space);
  expect(await used.allocate(uid)).toEqual({ first: 65_536, length: 65_536 });
  expect(await used.allocate("another")).toEqual({ first: 131_072, length: 65_536 });
});

test("reads the Services that containers see while the API server is away", async () => {
  const stopped = AbortSignal.abort();
  const services = createServices({
    kube: { listAndWatch: () => Promise.resolve() },
    clock: new FakeClock(),
    log,
    root,
    namespaces: () => new Set(["shop"]),
    isApiSynced: () => false,
    onAvailable: () => {},
  });
  await services.run(stopped);
  expect(services.latest()).toEqual([
    {
      metadata: { namespace: "default", name: "kubernetes" },
      spec: { clusterIP: "10.96.0.1", ports: [{ port: 443, name: "https", protocol: "TCP" }] },
    },
    { metadata: { namespace: "shop", name: "db" }, spec: { clusterIP: "10.96.0.7", ports: [{ port: 5432 }] } },
  ]);
  expect(log.takeLines()).toEqual([]);
});
