import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile, statfs, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Pod, Volume } from "../../proto/kubernetes/gen/types.ts";
import { webImage, webPage } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";
import { freePort } from "./free-port.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { containerId, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;

beforeAll(async () => {
  node = await startNode();
});

afterAll(async () => {
  await node.end();
});

/** What the container `name` of a pod has printed so far, without the runtime's column of times. */
async function printed({ namespace, name, uid }: PodSummary, container = "main"): Promise<readonly string[]> {
  const file = join(node.paths.podLogs, `${namespace}_${name}_${uid}`, container, "0.log");
  const text = await readFile(file, "utf8");
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => line.slice(line.indexOf(" ") + 1));
}

/** Runs a pod that prints what there is to know and sleeps on; returns what it printed, once it has printed `end`. */
async function tell(pod: Pod): Promise<readonly string[]> {
  const { name = "" } = pod.metadata;
  await node.put(pod);
  const [running] = await node.running(name);
  return await until(`${name} to have printed all`, 10_000, async () => {
    const lines = await printed(running!);
    return lines.includes("stdout F end") && lines;
  });
}

test("a log is where log collectors look, each line with its stream", async () => {
  const lines = await tell(podOf("talker", { command: script("echo out; echo err >&2; echo end; sleep 1000") }));
  expect(lines).toContain("stdout F out");
  expect(lines).toContain("stderr F err");
  const [pod] = await node.running("talker");
  expect(await readdir(join(node.paths.podLogs, `default_talker-berth_${pod!.uid}`))).toEqual(["main"]);
});

test("the environment holds plain values, values made of others, and fields of the pod", async () => {
  const field = (name: string, fieldPath: string) => ({
    name,
    valueFrom: { fieldRef: { apiVersion: "v1", fieldPath } },
  });
  const lines = await tell(
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
  const [pod] = await node.running("environment");
  const { blocks, bsize } = await statfs(node.paths.agentRoot);
  for (const line of ["WHO=world", "GREETING=hello world", "POD=environment-berth", "NODE=berth", `IP=${pod!.ip}`])
    expect(lines).toContain(`stdout F ${line}`);
  // What pods may have of the node: a tenth of its disk is kept from them, as the kubelet counts a tenth.
  const capacity = blocks * bsize;
  expect(lines).toContain(`stdout F STORAGE=${capacity - Math.floor(capacity * Math.fround(0.1))}`);
  expect(lines).toContain("stdout F args hello world $(GREETING) $(ABSENT)");
});

test("the hostname is the pod's name, or the one it asks for", async () => {
  const command = script("hostname; cat /etc/hostname; echo end; sleep 1000");
  expect(await tell(podOf("named", { command }))).toEqual([
    "stdout F named-berth",
    "stdout F named-berth",
    "stdout F end",
  ]);
  expect((await tell(podOf("renamed", { command }, { hostname: "captain" })))[0]).toBe("stdout F captain");
});

test("containers of a pod share an emptyDir, a hostPath is the node's, and readOnly holds", async () => {
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
  const lines = await tell(podOf("volumes", {}, { ...spec, containers, volumes }));
  expect(lines).toEqual([
    "stdout F shared",
    "stdout F from the host",
    "stdout F touch: /box/no: Read-only file system",
    "stdout F end",
  ]);
  expect(await readFile(join(node.folder, "to-host"), "utf8")).toBe("to the host\n");
});

test("an emptyDir outlives its container, and not its pod", async () => {
  const command = script("echo x >> /box/starts; test $(wc -l < /box/starts) = 1 && exit 1; echo end; sleep 1000");
  const box = { volumeMounts: [{ name: "box", mountPath: "/box" }] };
  await node.put(podOf("emptied", { command, ...box }, { volumes: [{ name: "box", emptyDir: {} }] }));
  const pod = await node.pod(
    "emptied",
    "its second instance runs",
    ({ restarts, ready }) => restarts === 1 && ready === "1/1",
  );
  const folder = join(node.paths.agentRoot, "pods", pod.uid);
  await until(
    "both starts to be written",
    5000,
    async () => (await readFile(join(folder, "volumes/kubernetes.io~empty-dir/box/starts"), "utf8")) === "x\nx\n",
  );
  await node.removeFile("emptied.yaml");
  await until(
    "the pod's folder to be gone",
    20_000,
    async () => !(await readdir(join(node.paths.agentRoot, "pods"))).includes(pod.uid),
  );
});

test("a container is reached by its pod's address, and by a port of the node where it asks for one", async () => {
  const hostPort = await freePort();
  const pod = podOf("web", { image: webImage, ports: [{ containerPort: 8080, hostPort }] });
  const { command: _, ...container } = pod.spec.containers[0]!;
  await node.put({ ...pod, spec: { ...pod.spec, containers: [container] } });
  const [web] = await node.running("web");
  const gateway = node.containerd.subnet.replace("0/24", "1");
  for (const url of [`http://${web!.ip}:8080/`, `http://${gateway}:${hostPort}/`])
    expect(
      await until(`an answer of ${url}`, 5000, () =>
        fetch(url).then(
          (answer) => answer.text(),
          () => undefined,
        ),
      ),
    ).toBe(webPage);
});

test("a pod finds itself, its aliases and its domain by /etc/hosts, which it may write to", async () => {
  const command = script("hostname; echo 192.0.2.9 own >>/etc/hosts; cat /etc/hosts; echo end; sleep 1000");
  const spec = { subdomain: "group", hostAliases: [{ ip: "192.0.2.7", hostnames: ["db", "db.local"] }] };
  const lines = await tell(podOf("findable", { command }, { ...spec, setHostnameAsFQDN: true }));
  const [pod] = await node.running("findable");
  const full = `findable-${node.name}.group.default.svc.`;
  expect(lines[0]).toStartWith(`stdout F ${full}`);
  expect(lines).toContain("stdout F 127.0.0.1\tlocalhost");
  expect(lines.some((line) => line.startsWith(`stdout F ${pod!.ip}\t${full}`))).toBe(true);
  expect(lines).toContain("stdout F 192.0.2.7\tdb\tdb.local");
  expect(lines).toContain("stdout F 192.0.2.9 own");
});

test("hostNetwork is the node's network: its name, its interfaces, its address", async () => {
  const command = script("hostname; ls /sys/class/net; echo end; sleep 1000");
  const lines = await tell(podOf("host-network", { command }, { hostNetwork: true }));
  const [pod] = await node.running("host-network");
  expect(lines[0]).toBe(`stdout F ${hostname()}`);
  expect(lines).toContain(`stdout F ${node.containerd.bridge}`);
  expect(pod!.ip).toBe(pod!.status.hostIP!);
});

test("hostPID shows the processes of the node, and without it a container is alone", async () => {
  const command = script("cat /proc/1/comm; echo end; sleep 1000");
  const [shown] = await tell(podOf("host-processes", { command }, { hostPID: true }));
  const [own] = await tell(podOf("own-processes", { command }));
  expect([shown, own]).toEqual([`stdout F ${(await readFile("/proc/1/comm", "utf8")).trim()}`, "stdout F catatonit"]);
});

test("with shareProcessNamespace the containers of a pod see each other's processes", async () => {
  const looking = script("until ps | grep -q '[s]leep 987654'; do sleep 0.1; done; echo seen; echo end; sleep 1000");
  const pod = podOf("one-family", { command: looking }, { shareProcessNamespace: true });
  const [main] = pod.spec.containers;
  const other = { ...main!, name: "other", command: script("exec sleep 987654") };
  const lines = await tell({ ...pod, spec: { ...pod.spec, containers: [main!, other] } });
  expect(lines).toContain("stdout F seen");
});

test("the last words of a container come from its file, and from its log where it asks for that and has failed", async () => {
  const rows: readonly [name: string, text: string, policy: "File" | "FallbackToLogsOnError"][] = [
    ["of-file", "echo said; echo because >/dev/termination-log; exit 2", "File"],
    ["of-log", "echo said; echo because; exit 2", "FallbackToLogsOnError"],
    ["of-both", "echo said; echo because >/dev/termination-log; exit 2", "FallbackToLogsOnError"],
    ["of-nothing", "echo said; exit 2", "File"],
    ["of-success", "echo said", "FallbackToLogsOnError"],
  ];
  for (const [name, text, terminationMessagePolicy] of rows)
    await node.put(podOf(name, { command: script(text), terminationMessagePolicy }, { restartPolicy: "Never" }));
  const messages = rows.map(async ([name]) => {
    const { status } = await node.pod(name, "it has ended", ({ phase }) => phase === "Succeeded" || phase === "Failed");
    return status.containerStatuses?.[0]?.state?.terminated?.message;
  });
  expect(await Promise.all(messages)).toEqual(["because\n", "said\nbecause\n", "because\n", undefined, undefined]);
});

test("requests and limits reach the kernel through the runtime", async () => {
  const resources = { requests: { cpu: "250m", memory: "16Mi" }, limits: { cpu: "500m", memory: "32Mi" } };
  await node.put(podOf("limited", { command: untilStopped, resources }));
  const [pod] = await node.running("limited");
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

test("a container that takes more memory than its limit is killed, and OOMKilled is why", async () => {
  const resources = { limits: { memory: "16Mi" } };
  const command = ["tail", "-c", "67108864", "/dev/zero"];
  await node.put(podOf("greedy", { command, resources }, { restartPolicy: "Never" }));
  // The runtime may hear of the memory a moment after it has shown the end.
  const pod = await node.pod("greedy", "it is told why it has failed", ({ phase, status }) => {
    return phase === "Failed" && status.containerStatuses?.[0]?.state?.terminated?.reason !== "Error";
  });
  expect(pod.status.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 137, reason: "OOMKilled" });
});
