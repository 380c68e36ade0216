// Records responses of real runtimes as golden files for unit tests: `bun test/upstream/record-cri.ts`, as root.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, credentials } from "@grpc/grpc-js";
import * as api from "../../proto/cri/gen/api.ts";
import { Envelope, SubscribeRequest } from "../../proto/cri/gen/containerd-events.ts";
import { podNameLabel, podNamespaceLabel, podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { busyboxImage, importImages } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type GoldenCodec, writeGolden } from "./golden-cri.ts";

const labels = { [podUidLabel]: "golden-uid", [podNameLabel]: "golden", [podNamespaceLabel]: "default" };
const sandboxConfig = api.PodSandboxConfig.fromPartial({
  metadata: { name: "golden", uid: "golden-uid", namespace: "default", attempt: 1 },
  hostname: "golden",
  logDirectory: join(tmpdir(), "berth-golden"),
  labels,
  annotations: { "kubernetes.io/config.source": "file" },
  linux: { securityContext: { namespaceOptions: { pid: api.NamespaceMode.CONTAINER } } },
});

const containerConfig = (name: string, command: readonly string[]) =>
  api.ContainerConfig.fromPartial({
    metadata: { name, attempt: 3 },
    image: { image: busyboxImage },
    command: [...command],
    logPath: `${name}/3.log`,
    labels: { ...labels, "io.kubernetes.container.name": name },
    annotations: { "io.kubernetes.container.restartCount": "3" },
    linux: {
      resources: { cpuPeriod: 100_000n, cpuQuota: 50_000n, cpuShares: 512n, memoryLimitInBytes: 64n << 20n },
      securityContext: { namespaceOptions: { pid: api.NamespaceMode.CONTAINER } },
    },
  });

async function record(version: ContainerdVersion): Promise<void> {
  const stateDir = await mkdtemp(join(tmpdir(), "berth-golden-"));
  const containerd = await startContainerd({ version, stateDir });
  const client = new Client(containerd.endpoint, credentials.createInsecure());
  try {
    await importImages(containerd);
    await recordPod(createRecorder(client, version), version);
  } finally {
    client.close();
    await containerd.stop();
    await rm(stateDir, { recursive: true });
    await rm(sandboxConfig.logDirectory, { recursive: true, force: true });
  }
}

/** Runs one pod with a container for each state, from its creation to its removal, and records the responses. */
async function recordPod(
  { ask: call, subscribe }: ReturnType<typeof createRecorder>,
  version: ContainerdVersion,
): Promise<void> {
  const runtime = "runtime.v1.RuntimeService";
  const events =
    version === "1.6"
      ? subscribe(
          "containerd.services.events.v1.Events/Subscribe",
          bytesOf(SubscribeRequest, subscribeRequest),
          Envelope,
        )
      : subscribe(`${runtime}/GetContainerEvents`, Buffer.alloc(0), api.ContainerEventResponse);
  const versionRequest = bytesOf(api.VersionRequest, { version: "0.1.0" });
  await call("version", `${runtime}/Version`, versionRequest, api.VersionResponse);
  await call("status", `${runtime}/Status`, Buffer.alloc(0), api.StatusResponse);
  const image = bytesOf(api.ImageStatusRequest, { image: { image: busyboxImage } });
  await call("image-status", "runtime.v1.ImageService/ImageStatus", image, api.ImageStatusResponse);
  const run = bytesOf(api.RunPodSandboxRequest, { config: sandboxConfig });
  const { podSandboxId } = await call(undefined, `${runtime}/RunPodSandbox`, run, api.RunPodSandboxResponse);
  const sandboxRequest = bytesOf(api.PodSandboxStatusRequest, { podSandboxId });
  const sandboxStatus = (name: string) =>
    call(name, `${runtime}/PodSandboxStatus`, sandboxRequest, api.PodSandboxStatusResponse);
  await sandboxStatus("pod-sandbox-status-ready");

  const create = async (name: string, command: readonly string[]) => {
    const request = { podSandboxId, config: containerConfig(name, command), sandboxConfig };
    const bytes = bytesOf(api.CreateContainerRequest, request);
    return (await call(undefined, `${runtime}/CreateContainer`, bytes, api.CreateContainerResponse)).containerId;
  };
  const start = (containerId: string) =>
    call(
      undefined,
      `${runtime}/StartContainer`,
      bytesOf(api.StartContainerRequest, { containerId }),
      api.StartContainerResponse,
    );
  const status = (name: string | undefined, containerId: string) =>
    call(
      name,
      `${runtime}/ContainerStatus`,
      bytesOf(api.ContainerStatusRequest, { containerId }),
      api.ContainerStatusResponse,
    );
  const waitForExit = (containerId: string) =>
    pollUntil("the end", 5_000, async () => (await status(undefined, containerId)).status?.state === 2);

  await status("container-status-created", await create("created", ["true"]));
  const running = await create("running", ["sleep", "600"]);
  await start(running);
  await status("container-status-running", running);
  for (const [name, command] of [
    ["completed", ["true"]],
    ["error", ["sh", "-c", "exit 3"]],
  ] as const) {
    const id = await create(name, command);
    await start(id);
    await waitForExit(id);
    await status(`container-status-${name}`, id);
  }
  const broken = await create("start-error", ["/does-not-exist"]);
  // The start fails, as it should; the recorded status shows its error.
  await start(broken).catch(() => undefined);
  await status("container-status-start-error", broken);
  await call("list-containers", `${runtime}/ListContainers`, Buffer.alloc(0), api.ListContainersResponse);
  await call("list-pod-sandbox-ready", `${runtime}/ListPodSandbox`, Buffer.alloc(0), api.ListPodSandboxResponse);

  const stop = bytesOf(api.StopContainerRequest, { containerId: running, timeout: 0n });
  await call(undefined, `${runtime}/StopContainer`, stop, api.StopContainerResponse);
  await status("container-status-killed", running);
  await call(
    undefined,
    `${runtime}/StopPodSandbox`,
    bytesOf(api.StopPodSandboxRequest, { podSandboxId }),
    api.StopPodSandboxResponse,
  );
  await sandboxStatus("pod-sandbox-status-not-ready");
  await call("list-pod-sandbox-not-ready", `${runtime}/ListPodSandbox`, Buffer.alloc(0), api.ListPodSandboxResponse);
  const remove = bytesOf(api.RemovePodSandboxRequest, { podSandboxId });
  await call(undefined, `${runtime}/RemovePodSandbox`, remove, api.RemovePodSandboxResponse);
  await events.end("events");
}

const subscribeRequest = { filters: ["namespace==k8s.io,topic~=/tasks/", "namespace==k8s.io,topic~=/containers/"] };

function bytesOf<T>(codec: GoldenCodec<T>, partial: Parameters<GoldenCodec<T>["fromPartial"]>[0]): Buffer {
  return Buffer.from(codec.encode(codec.fromPartial(partial)).finish());
}

/** Calls the runtime by method path and records the response bytes as received. */
function createRecorder(client: Client, version: ContainerdVersion) {
  const identity = (bytes: Buffer) => bytes;
  return {
    /** Makes a unary call and returns the decoded response. Records it if `name` is given. */
    async ask<T>(name: string | undefined, path: string, request: Buffer, codec: GoldenCodec<T>): Promise<T> {
      const bytes = await new Promise<Buffer>((resolve, reject) => {
        client.makeUnaryRequest(`/${path}`, identity, identity, request, (error, answer = Buffer.alloc(0)) =>
          error === null ? resolve(answer) : reject(error),
        );
      });
      if (name !== undefined) await writeGolden(version, name, codec, [bytes]);
      return codec.decode(bytes);
    },
    /** Opens a stream. `end` closes it and records the received messages. */
    subscribe<T>(path: string, request: Buffer, codec: GoldenCodec<T>) {
      const received: Buffer[] = [];
      const call = client.makeServerStreamRequest(`/${path}`, identity, identity, request);
      call.on("data", (bytes: Buffer) => received.push(bytes));
      call.on("error", () => {
        // grpc-js reports a cancelled stream as an error, and this stream ends by cancelling only.
      });
      return {
        async end(name: string) {
          const isLast = (bytes: Buffer) => bytes.includes("/containers/delete") || bytes.includes("\x10\x03");
          await pollUntil("six removals", 5_000, () => received.filter(isLast).length >= 6);
          call.cancel();
          await writeGolden(version, name, codec, received);
        },
      };
    },
  };
}

for (const version of ["1.6", "2.1"] as const) await record(version);
