import { afterAll, beforeAll, describe, setDefaultTimeout, test } from "bun:test";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { podOf } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

/** Pod fields that the API server accepts although the container cannot start with them, and the expected report. */
interface Row {
  readonly title: string;
  readonly container?: Partial<Container>;
  readonly spec?: Partial<PodSpec>;
  readonly reason: string;
  readonly expectedMessage: string;
}

const limitOf = (containerName: string) => ({ resourceFieldRef: { containerName, resource: "limits.cpu" } });
const rows: readonly Row[] = [
  {
    title: "a resourceFieldRef to a container that the pod does not have",
    container: { env: [{ name: "A", valueFrom: limitOf("none") }] },
    reason: "CreateContainerConfigError",
    expectedMessage: "container none not found",
  },
  {
    title: "runAsUser 0 in a pod with runAsNonRoot",
    container: { securityContext: { runAsUser: 0 } },
    spec: { securityContext: { runAsNonRoot: true } },
    reason: "CreateContainerConfigError",
    expectedMessage: "container's runAsUser breaks non-root policy",
  },
  {
    title: "a seccomp profile that is not on the node",
    container: { securityContext: { seccompProfile: { type: "Localhost", localhostProfile: "none.json" } } },
    reason: "CreateContainerError",
    expectedMessage: "seccomp/none.json",
  },
  {
    title: "a hostname whose FQDN is too long",
    spec: { hostname: "h".repeat(63), subdomain: "s".repeat(63), setHostnameAsFQDN: true },
    reason: "ContainerCreating",
    expectedMessage: "failed to construct FQDN from pod hostname and cluster domain",
  },
  {
    title: "a sysctl with an invalid value",
    spec: { securityContext: { sysctls: [{ name: "net.ipv4.tcp_syncookies", value: "soon" }] } },
    reason: "ContainerCreating",
    expectedMessage: "tcp_syncookies",
  },
  {
    title: "a relative working directory",
    container: { workingDir: "srv" },
    reason: "StartError",
    expectedMessage: "Cwd must be an absolute path",
  },
  {
    title: "a termination message path that is a mounted folder",
    container: { terminationMessagePath: "v", volumeMounts: [{ name: "v", mountPath: "/v" }] },
    spec: { volumes: [{ name: "v", emptyDir: {} }] },
    reason: "StartError",
    expectedMessage: "not a directory",
  },
];

let node: TestNode;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node.tearDown());

describe("the status has the kubelet's reason and names the problem:", () => {
  for (const [at, { title, container, spec, reason, expectedMessage }] of rows.entries())
    test(title, async () => {
      const name = `bad-${at}`;
      await node.putManifest(podOf(name, container, spec));
      await node.waitForPod(name, `${reason}: ${expectedMessage}`, (pod) => {
        // A failed start is retried at once; from then on the last state shows it.
        const { state, lastState } = pod.status.containerStatuses?.[0] ?? {};
        const reports = [pod, state?.terminated, lastState?.terminated];
        return reports.some((each) => each?.reason === reason && each.message?.includes(expectedMessage));
      });
      await node.removeFile(`${name}.yaml`);
    });
});

test("a pod with a bad field does not prevent another pod from running, and leaves nothing", async () => {
  await node.putManifest(podOf("good"));
  await node.waitUntilRunning("good");
  await node.removeFile("good.yaml");
  await node.waitUntilEmpty();
});
