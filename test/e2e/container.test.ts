import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile, statfs, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Pod, Volume } from "../../proto/kubernetes/gen/types.ts";
import { webImage, webPage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { freePort } from "./free-port.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { containerId, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;

beforeAll(async () => {
  node = await startNode();
});

afterAll(async () => {
  await node.tearDown();
});

/** The log lines of a pod's container so far, without the runtime's timestamps. */
async function readLogLines({ namespace, name, uid }: PodSummary, container = "main"): Promise<readonly string[]> {
  const file = join(node.paths.podLogs, `${namespace}_${name}_${uid}`, container, "0.log");
  const text = await readFile(file, "utf8");
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => line.slice(line.indexOf(" ") + 1));
}

/** Runs a pod whose command prints lines, then `end`, and sleeps. Returns the log lines after `end`. */
async function runAndReadLog(pod: Pod): Promise<readonly string[]> {
  const { name = "" } = pod.metadata;
  await node.putManifest(pod);
  const [running] = await node.waitUntilRunning(name);
  return await pollUntil(`${name} to print end`, 10_000, async () => {
    const lines = await readLogLines(running!);
    return lines.includes("stdout F end") && lines;
  });
}

test("a container's log is at the path that log collectors expect, and each line names its stream", async () => {
  const lines = await runAndReadLog(
    podOf("talker", { command: script("echo out; echo err >&2; echo end; sleep 1000") }),
  );
  expect(lines).toContain("stdout F out");
  expect(lines).toContain("stderr F err");
  const [pod] = await node.waitUntilRunning("talker");
  expect(await readdir(join(node.paths.podLogs, `default_talker-berth_${pod!.uid}`))).toEqual(["main"]);
});

test("the environment has plain values, expanded values, and fields and resources of the pod", async () => {
  const field = (name: string, fieldPath: string) => ({
    name,
    valueFrom: { fieldRef: { apiVersion: "v1", fieldPath } },
  });
  const lines = await runAndReadLog(
    podOf("environment", {
      command: script('env; echo "args $0 $1"; echo end; sleep 1000'),
      args: ["$(GREETING)", "$$(GREETING) $(ABSENT)"],
      env: [
        { name: "WHO", value: "world" },
        { name: "GREETING", value: "hello $(WHO)" },
        field("POD", "metadata.name"),
        field("NODE", "spec.nodeName"),
        field("IP", "status.podIP"),
        { name: "STORAGE", valueFrom: { resourceFieldRef: { resource: "limits.ephemeral-storage" } } },
      ],
    }),
  );
  const [pod] = await node.waitUntilRunning("environment");
  const { blocks, bsize } = await statfs(node.paths.agentRoot);
  for (const line of ["WHO=world", "GREETING=hello world", "POD=environment-berth", "NODE=berth", `IP=${pod!.ip}`])
    expect(lines).toContain(`stdout F ${line}`);
  // The node's allocatable ephemeral storage: capacity less the eviction threshold of 10 %, with the kubelet's
  // rounding.
  const capacity = blocks * bsize;
  expect(lines).toContain(`stdout F STORAGE=${capacity - Math.floor(capacity * Math.fround(0.1))}`);
  expect(lines).toContain("stdout F args hello world $(GREETING) $(ABSENT)");
});

test("the hostname is the pod's name, or its spec.hostname", async () => {
  const command = script("hostname; cat /etc/hostname; echo end; sleep 1000");
  expect(await runAndReadLog(podOf("named", { command }))).toEqual([
    "stdout F named-berth",
    "stdout F named-berth",
    "stdout F end",
  ]);
  expect((await runAndReadLog(podOf("renamed", { command }, { hostname: "captain" })))[0]).toBe("stdout F captain");
});

test("containers of a pod share an emptyDir, a hostPath is the node's folder, and readOnly mounts refuse writes", async () => {
  await writeFile(join(node.folder, "from-host"), "from the host");
  const mount = (name: string, readOnly = false) => ({ name, mountPath: `/${name}`, readOnly });
  const writer = {
    name: "writer",
    command: script("echo shared > /box/file; sleep 1000"),
    volumeMounts: [mount("box")],
  };
  const command = script(
    "until test -s /box/file; do sleep 0.05; done; cat /box/file /host/from-host; echo; touch /box/no 2>&1; echo to the host > /host/to-host; echo end; sleep 1000",
  );
  const { spec } = podOf("volumes", { command, volumeMounts: [mount("box", true), mount("host")] });
  const volumes: readonly Volume[] = [
    { name: "box", emptyDir: {} },
    { name: "host", hostPath: { path: node.folder, type: "Directory" } },
  ];
  const containers = [...spec.containers, { ...spec.containers[0]!, ...writer }];
  const lines = await runAndReadLog(podOf("volumes", {}, { ...spec, containers, volumes }));
  expect(lines).toEqual([
    "stdout F shared",
    "stdout F from the host",
    "stdout F touch: /box/no: Read-only file system",
    "stdout F end",
  ]);
  expect(await readFile(join(node.folder, "to-host"), "utf8")).toBe("to the host\n");
});

test("an emptyDir survives a container restart and is removed with its pod", async () => {
  const command = script("echo x >> /box/starts; test $(wc -l < /box/starts) = 1 && exit 1; echo end; sleep 1000");
  const box = { volumeMounts: [{ name: "box", mountPath: "/box" }] };
  await node.putManifest(podOf("emptied", { command, ...box }, { volumes: [{ name: "box", emptyDir: {} }] }));
  const pod = await node.waitForPod(
    "emptied",
    "its second instance runs",
    ({ restarts, ready }) => restarts === 1 && ready === "1/1",
  );
  const folder = join(node.paths.agentRoot, "pods", pod.uid);
  await pollUntil(
    "both starts to be written",
    5000,
    async () => (await readFile(join(folder, "volumes/kubernetes.io~empty-dir/box/starts"), "utf8")) === "x\nx\n",
  );
  await node.removeFile("emptied.yaml");
  await pollUntil(
    "the pod's folder to be gone",
    20_000,
    async () => !(await readdir(join(node.paths.agentRoot, "pods"))).includes(pod.uid),
  );
});

test("a container is reachable on its pod's address, and on its hostPort of the node", async () => {
  const hostPort = await freePort();
  const pod = podOf("web", { image: webImage, ports: [{ containerPort: 8080, hostPort }] });
  const { command: _, ...container } = pod.spec.containers[0]!;
  await node.putManifest({ ...pod, spec: { ...pod.spec, containers: [container] } });
  const [web] = await node.waitUntilRunning("web");
  const gateway = node.containerd.subnet.replace("0/24", "1");
  for (const url of [`http://${web!.ip}:8080/`, `http://${gateway}:${hostPort}/`])
    expect(
      await pollUntil(`an answer of ${url}`, 5000, () =>
        fetch(url).then(
          (answer) => answer.text(),
          () => undefined,
        ),
      ),
    ).toBe(webPage);
});

test("a pod's /etc/hosts has its own name with the domain and its host aliases, and is writable", async () => {
  const command = script("hostname; echo 192.0.2.9 own >>/etc/hosts; cat /etc/hosts; echo end; sleep 1000");
  const spec = { subdomain: "group", hostAliases: [{ ip: "192.0.2.7", hostnames: ["db", "db.local"] }] };
  const lines = await runAndReadLog(podOf("findable", { command }, { ...spec, setHostnameAsFQDN: true }));
  const [pod] = await node.waitUntilRunning("findable");
  const full = `findable-${node.name}.group.default.svc.`;
  expect(lines[0]).toStartWith(`stdout F ${full}`);
  expect(lines).toContain("stdout F 127.0.0.1\tlocalhost");
  expect(lines.some((line) => line.startsWith(`stdout F ${pod!.ip}\t${full}`))).toBe(true);
  expect(lines).toContain("stdout F 192.0.2.7\tdb\tdb.local");
  expect(lines).toContain("stdout F 192.0.2.9 own");
});

test("a hostNetwork pod has the node's hostname, interfaces and address", async () => {
  const command = script("hostname; ls /sys/class/net; echo end; sleep 1000");
  const lines = await runAndReadLog(podOf("host-network", { command }, { hostNetwork: true }));
  const [pod] = await node.waitUntilRunning("host-network");
  expect(lines[0]).toBe(`stdout F ${hostname()}`);
  expect(lines).toContain(`stdout F ${node.containerd.bridge}`);
  expect(pod!.ip).toBe(pod!.status.hostIP!);
});

test("a hostPID pod sees the node's processes, and another pod only its own", async () => {
  const command = script("cat /proc/1/comm; echo end; sleep 1000");
  const [shown] = await runAndReadLog(podOf("host-processes", { command }, { hostPID: true }));
  const [own] = await runAndReadLog(podOf("own-processes", { command }));
  expect([shown, own]).toEqual([`stdout F ${(await readFile("/proc/1/comm", "utf8")).trim()}`, "stdout F catatonit"]);
});

test("with shareProcessNamespace the containers of a pod see each other's processes", async () => {
  const waitsForOther = script(
    "until ps | grep -q '[s]leep 987654'; do sleep 0.1; done; echo seen; echo end; sleep 1000",
  );
  const pod = podOf("one-family", { command: waitsForOther }, { shareProcessNamespace: true });
  const [main] = pod.spec.containers;
  const other = { ...main!, name: "other", command: script("exec sleep 987654") };
  const lines = await runAndReadLog({ ...pod, spec: { ...pod.spec, containers: [main!, other] } });
  expect(lines).toContain("stdout F seen");
});

test("the termination message comes from the file, or from the log of a failed container with FallbackToLogsOnError", async () => {
  const rows: readonly [name: string, text: string, policy: "File" | "FallbackToLogsOnError"][] = [
    ["of-file", "echo said; echo because >/dev/termination-log; exit 2", "File"],
    ["of-log", "echo said; echo because; exit 2", "FallbackToLogsOnError"],
    ["of-both", "echo said; echo because >/dev/termination-log; exit 2", "FallbackToLogsOnError"],
    ["of-nothing", "echo said; exit 2", "File"],
    ["of-success", "echo said", "FallbackToLogsOnError"],
  ];
  for (const [name, text, terminationMessagePolicy] of rows)
    await node.putManifest(
      podOf(name, { command: script(text), terminationMessagePolicy }, { restartPolicy: "Never" }),
    );
  const messages = rows.map(async ([name]) => {
    const { status } = await node.waitForPod(
      name,
      "it has ended",
      ({ phase }) => phase === "Succeeded" || phase === "Failed",
    );
    return status.containerStatuses?.[0]?.state?.terminated?.message;
  });
  expect(await Promise.all(messages)).toEqual(["because\n", "said\nbecause\n", "because\n", undefined, undefined]);
});

test("requests and limits are in the OCI spec of the container", async () => {
  const resources = { requests: { cpu: "250m", memory: "16Mi" }, limits: { cpu: "500m", memory: "32Mi" } };
  await node.putManifest(podOf("limited", { command: untilStopped, resources }));
  const [pod] = await node.waitUntilRunning("limited");
  expect(pod!.status.qosClass).toBe("Burstable");
  const shown = JSON.parse(await node.containerd.ctr(["-n", "k8s.io", "containers", "info", containerId(pod!)])) as {
    readonly Spec: {
      readonly linux: { readonly resources: unknown };
      readonly process: { readonly oomScoreAdj: number };
    };
  };
  expect(shown.Spec.linux.resources).toMatchObject({
    cpu: { shares: 256, quota: 50_000, period: 100_000 },
    memory: { limit: 32 << 20 },
  });
});

test("a container that exceeds its memory limit is killed with the reason OOMKilled", async () => {
  const resources = { limits: { memory: "16Mi" } };
  // The shim watches for OOM kills when StartContainer has returned: of a container killed before, containerd says `Error`.
  const command = script("until test -e /host/starts-to-allocate; do sleep 0.1; done; exec tail -c 67108864 /dev/zero");
  const volumeMounts = [{ name: "host", mountPath: "/host" }];
  const withFolder = { volumes: [{ name: "host", hostPath: { path: node.folder } }] };
  await node.putManifest(
    podOf("greedy", { command, resources, volumeMounts }, { ...withFolder, restartPolicy: "Never" }),
  );
  await node.waitUntilRunning("greedy");
  await writeFile(join(node.folder, "starts-to-allocate"), "");
  // The runtime may learn of the OOM kill a moment after it has reported the exit.
  const pod = await node.waitForPod("greedy", "it has failed with a final reason", ({ phase, status }) => {
    return phase === "Failed" && status.containerStatuses?.[0]?.state?.terminated?.reason !== "Error";
  });
  expect(pod.status.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 137, reason: "OOMKilled" });
});
