import { afterAll, beforeAll, describe, setDefaultTimeout, test } from "bun:test";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { podOf } from "./manifest.ts";
import { type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

/** What the API server takes although it cannot be carried out, and what a user is to see of it. */
interface Row {
  readonly title: string;
  readonly container?: Partial<Container>;
  readonly spec?: Partial<PodSpec>;
  readonly reason: string;
  readonly says: string;
}

const limitOf = (containerName: string) => ({ resourceFieldRef: { containerName, resource: "limits.cpu" } });
const rows: readonly Row[] = [
  {
    title: "a variable of a container that the pod does not have",
    container: { env: [{ name: "A", valueFrom: limitOf("none") }] },
    reason: "CreateContainerConfigError",
    says: "container none not found",
  },
  {
    title: "root, where the pod forbids it",
    container: { securityContext: { runAsUser: 0 } },
    spec: { securityContext: { runAsNonRoot: true } },
    reason: "CreateContainerConfigError",
    says: "container's runAsUser breaks non-root policy",
  },
  {
    title: "a seccomp profile that is not on the node",
    container: { securityContext: { seccompProfile: { type: "Localhost", localhostProfile: "none.json" } } },
    reason: "CreateContainerError",
    says: "seccomp/none.json",
  },
  {
    title: "a hostname that is too long with its domain",
    spec: { hostname: "h".repeat(63), subdomain: "s".repeat(63), setHostnameAsFQDN: true },
    reason: "ContainerCreating",
    says: "failed to construct FQDN from pod hostname and cluster domain",
  },
  {
    title: "a sysctl with a value that is none",
    spec: { securityContext: { sysctls: [{ name: "net.ipv4.tcp_syncookies", value: "soon" }] } },
    reason: "ContainerCreating",
    says: "tcp_syncookies",
  },
  {
    title: "a working directory that is relative",
    container: { workingDir: "srv" },
    reason: "StartError",
    says: "Cwd must be an absolute path",
  },
  {
    title: "last words in the place of a mounted folder",
    container: { terminationMessagePath: "v", volumeMounts: [{ name: "v", mountPath: "/v" }] },
    spec: { volumes: [{ name: "v", emptyDir: {} }] },
    reason: "StartError",
    says: "not a directory",
  },
];

let node: Node;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node.end());

describe("is told with the reason of Kubernetes and what is wrong:", () => {
  for (const [at, { title, container, spec, reason, says }] of rows.entries())
    test(title, async () => {
      const name = `bad-${at}`;
      await node.put(podOf(name, container, spec));
      await node.pod(name, `${reason}: ${says}`, (pod) => {
        // What could not be started is tried again at once, and shown by its last state from then on.
        const { state, lastState } = pod.status.containerStatuses?.[0] ?? {};
        const told = [pod, state?.terminated, lastState?.terminated];
        return told.some((each) => each?.reason === reason && each.message?.includes(says));
      });
      await node.removeFile(`${name}.yaml`);
    });
});

test("none of them keeps another pod from running, and nothing of them stays", async () => {
  await node.put(podOf("good"));
  await node.running("good");
  await node.removeFile("good.yaml");
  await node.empty();
});
